//! With the feature `tracing`, a run and its parts are spans.

mod harness;

use std::sync::{Arc, Mutex};

use harness::gpu;
use torchlight::{DType, GraphBuilder, Input, Session, SessionOptions, TensorView};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes what is entered and left.
#[derive(Clone, Default)]
struct Notes {
    names: Arc<Mutex<Vec<&'static str>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Notes {
    fn note(&self, what: &str, span: &Id) {
        let name = self.names.lock().unwrap()[span.into_u64() as usize - 1];
        self.log.lock().unwrap().push(format!("{what}{name}"));
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "torchlight"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut names = self.names.lock().unwrap();
        names.push(span.metadata().name());
        Id::from_u64(names.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.note("+", span);
    }

    fn exit(&self, span: &Id) {
        self.note("-", span);
    }
}

#[test]
fn a_run_is_a_span_with_its_parts_inside() {
    let mut graph = GraphBuilder::new("sum");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    graph.output(sum);
    let mut session = Session::new(gpu(), &graph.finish().unwrap(), SessionOptions::default()).unwrap();
    let notes = Notes::default();
    tracing::subscriber::with_default(notes.clone(), || {
        session.run(&[Input::Host(TensorView::f32(&[4], &[1.0; 4]).unwrap())]).unwrap();
    });
    let wanted = "+run +prepare -prepare +encode +submit -submit -encode +wait -wait -run";
    assert_eq!(notes.log.lock().unwrap().join(" "), wanted);
}
