//! The `torchlight` command.

mod attention;
mod bench;
mod calibration;
mod case;
mod compare_profiles;
mod device;
mod devices;
mod export;
mod generate;
mod golden;
mod inspect;
mod linear;
mod loading;
mod overhead;
mod pipeline_cache;
mod profile;
mod profile_tables;
mod program_file;
mod run;
mod synthetic;
mod table;
mod verify;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs ExecuTorch programs that were delegated to the GPU, through WebGPU, and shows what every kernel costs.
#[derive(Debug, Parser)]
#[command(name = "torchlight", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    global: device::GlobalArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what a program holds: methods, inputs, outputs, operators, constants, and its plan for this machine's GPU.
    Inspect(inspect::InspectArgs),
    /// Run a program once, or a case folder step by step, and show its outputs.
    Run(run::RunArgs),
    /// Time every kernel of a program or a case folder with GPU timestamps.
    Profile(profile::ProfileArgs),
    /// Generate text with a language model, token by token.
    Generate(generate::GenerateArgs),
    /// Run case folders and compare every output and cache with its golden, the right value that lies in the folder.
    Verify(verify::VerifyArgs),
    /// Compare two profiles: which kernels became faster or slower, beyond noise.
    Compare(compare_profiles::CompareArgs),
    /// Time attention on shapes of real models, or what a dispatch costs.
    Bench(bench::BenchArgs),
    /// List the adapters of this machine with the features and limits that matter.
    Devices(devices::DevicesArgs),
}

/// How a command ended without an error.
enum Verdict {
    /// All is well.
    Passed,
    /// It ran, and the answer is no.
    Missed,
}

fn main() -> ExitCode {
    quiet_wayland();
    let cli = Cli::parse();
    let global = &cli.global;
    let mut out = io::BufWriter::new(Stdout(io::stdout().lock()));
    let verdict = match &cli.command {
        Command::Inspect(args) => inspect::inspect(global, args, &mut out),
        Command::Run(args) => run::run(global, args, &mut out),
        Command::Profile(args) => profile::profile(global, args, &mut out),
        Command::Generate(args) => generate::generate(global, args, &mut out),
        Command::Verify(args) => verify::verify(global, args, &mut out),
        Command::Compare(args) => compare_profiles::compare(global, args, &mut out),
        Command::Bench(args) => bench::bench(global, args, &mut out),
        Command::Devices(args) => devices::devices(global, args, &mut out),
    };
    let verdict = verdict.and_then(|verdict| Ok(out.flush().map(|()| verdict)?));
    match verdict {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Missed) => ExitCode::from(1),
        Err(error) => {
            // One line, whatever a file name or a driver put into the message.
            let message = format!("{error:#}").replace(['\n', '\r'], " ");
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

/// Keeps a driver's search for a display out of our stderr.
///
/// Where no desktop runs there is no `XDG_RUNTIME_DIR`, and Mesa's Vulkan drivers print an error about it through
/// libwayland whenever adapters are listed. An absolute path needs no such folder: the search fails without a word.
fn quiet_wayland() {
    let is_set = |name| std::env::var_os(name).is_some();
    if cfg!(target_os = "linux") && !is_set("XDG_RUNTIME_DIR") && !is_set("WAYLAND_DISPLAY") {
        #[allow(unsafe_code, reason = "setting an environment variable is unsafe while other threads may read it")]
        // SAFETY: this is the first statement of main, and no other thread has been started.
        unsafe {
            std::env::set_var("WAYLAND_DISPLAY", "/nonexistent");
        }
    }
}

/// Standard output. A closed pipe (`torchlight inspect model.pte | head`) is the reader's choice and not a failure: what
/// follows is dropped, and the exit code is the command's own.
struct Stdout<'o>(io::StdoutLock<'o>);

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(result: io::Result<T>, dropped: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(dropped),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))),
        Ok(value) => Ok(value),
    }
}
