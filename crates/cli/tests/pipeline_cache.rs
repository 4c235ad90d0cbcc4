//! `--pipeline-cache`: the file is made, kept while nothing changes, and never in the way.

mod harness;

use std::path::Path;

use harness::{Finished, finish, torchlight};

fn run(file: &Path) -> Finished {
    let mut command = torchlight(["run", "add", "--json", "--pipeline-cache"]);
    command.arg(file);
    finish(command)
}

#[test]
fn the_file_is_made_and_left_alone_while_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernels.cache");
    let first = run(&file).passed();
    let written = || std::fs::metadata(&file).unwrap().modified().unwrap();
    let made = written();
    assert_eq!(run(&file).passed(), first);
    assert_eq!(written(), made);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_damaged_file_is_said_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kernels.cache");
    let wanted = run(&file).passed();
    let whole = std::fs::read(&file).unwrap();
    let cut = &whole[..whole.len() / 2];
    for (content, why) in [(cut, "cut off"), (&b"not a cache, but some text"[..], "no cache of this version")] {
        std::fs::write(&file, content).unwrap();
        let [shown, said] = run(&file).told();
        assert_eq!(shown, wanted);
        assert!(said.starts_with("warning: ") && said.contains("kernels.cache") && said.contains(why), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        run(&file).passed();
    }
}

#[test]
fn a_place_where_no_file_can_be_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path()).refused(&["it is a folder"]);
    run(&folder.path().join("nowhere/kernels.cache")).refused(&["there is no folder"]);
}
