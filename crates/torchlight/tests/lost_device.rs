//! A device that is lost: runs end with an error, and soon.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use torchlight::{
    DType, Error, Gpu, GpuOptions, GraphBuilder, Input, Session, SessionOptions, TensorView, TimestampMode,
};

/// Long for an error, short for a test.
const SOON: Duration = Duration::from_secs(20);

fn session(gpu: &Gpu, timestamps: TimestampMode) -> Session {
    let mut graph = GraphBuilder::new("sum");
    let x = graph.input(DType::F32, &[4]).unwrap();
    let sum = graph.add(x, x, 1.0).unwrap();
    graph.output(sum);
    let options = SessionOptions { timestamps, ..SessionOptions::default() };
    Session::new(gpu, &graph.finish().unwrap(), options).unwrap()
}

#[test]
fn a_run_on_a_destroyed_device_is_an_error() {
    for mode in [TimestampMode::Off, TimestampMode::Pass] {
        let gpu = Gpu::open_blocking(&GpuOptions::default()).unwrap();
        let mut session = session(&gpu, mode);
        let x = TensorView::f32(&[4], &[1.0; 4]).unwrap();
        session.run(&[Input::Host(x)]).unwrap();
        gpu.device().destroy();
        let start = Instant::now();
        let error = session.run(&[Input::Host(x)]).unwrap_err();
        assert!(matches!(error, Error::Gpu(_)), "{mode}: {error}");
        assert!(start.elapsed() < SOON, "{mode}: {:?}", start.elapsed());
    }
}

#[test]
fn a_device_destroyed_while_results_are_under_way_ends_the_run() {
    for mode in [TimestampMode::Off, TimestampMode::Pass] {
        let gpu = Gpu::open_blocking(&GpuOptions::default()).unwrap();
        let mut session = session(&gpu, mode);
        let x = TensorView::f32(&[4], &[1.0; 4]).unwrap();
        let inputs = [Input::Host(x)];
        let start = Instant::now();
        let outcome = {
            let mut run = pin!(session.run_async(&inputs));
            let first = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            gpu.device().destroy();
            match first {
                std::task::Poll::Ready(outcome) => outcome,
                std::task::Poll::Pending => pollster::block_on(run),
            }
        };
        // The results may have been quicker than the end of the device; then they are right.
        match outcome {
            Ok(outputs) => assert_eq!(outputs[0].tensor().unwrap().to_f32().unwrap(), [2.0; 4], "{mode}"),
            Err(error) => assert!(matches!(error, Error::Gpu(_)), "{mode}: {error}"),
        }
        assert!(start.elapsed() < SOON, "{mode}: {:?}", start.elapsed());
        assert!(session.run(&inputs).is_err(), "{mode}: the device is gone");
    }
}
