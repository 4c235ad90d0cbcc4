//! The sink that is the device: commands to wgpu's encoders, part by part.

use super::adapter::Gpu;
use super::clock::Clock;
use super::command::{Command, Place, QueryPair, Sink};
use super::engine::Engine;
use super::timestamps::Queries;

/// The sink that is the device.
pub(super) struct Encoder<'e> {
    engine: &'e Engine,
    queries: Option<&'e Queries>,
    /// Of the part that is being encoded, once it has a command.
    encoder: Option<wgpu::CommandEncoder>,
    pass: Option<wgpu::ComputePass<'static>>,
    tap: Option<&'e mut Vec<Command>>,
    /// Whether commands are kept, in place of being submitted.
    keeps: bool,
    /// Nanoseconds that submissions took so far.
    pub(super) submit_ns: f64,
}

impl<'e> Encoder<'e> {
    pub(super) fn new(engine: &'e Engine, queries: Option<&'e Queries>, tap: Option<&'e mut Vec<Command>>) -> Self {
        Self { engine, queries, encoder: None, pass: None, tap, keeps: false, submit_ns: 0.0 }
    }

    /// An encoder that submits nothing.
    pub(super) fn keeping(engine: &'e Engine) -> Self {
        Self { keeps: true, ..Self::new(engine, None, None) }
    }

    /// The commands that were kept.
    pub(super) fn kept(self) -> Option<wgpu::CommandBuffer> {
        self.encoder.map(wgpu::CommandEncoder::finish)
    }

    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.encoder.get_or_insert_with(|| new_encoder(self.engine.gpu()))
    }

    fn place(&self, place: Place) -> Option<&'e wgpu::Buffer> {
        self.engine.place(place, self.queries)
    }

    fn submit(&mut self) {
        span!("submit");
        let clock = Clock::start();
        self.pass = None;
        if self.keeps {
            return;
        }
        // A submission without commands still hands over what was written to buffers.
        self.engine.gpu().queue.submit(self.encoder.take().map(wgpu::CommandEncoder::finish));
        self.submit_ns += clock.now_ns();
    }

    fn begin_pass(&mut self, timestamps: Option<QueryPair>) {
        let timestamp_writes = timestamps.zip(self.queries).map(|(pair, queries)| wgpu::ComputePassTimestampWrites {
            query_set: &queries.sets[pair.set as usize],
            beginning_of_pass_write_index: Some(pair.begin),
            end_of_pass_write_index: Some(pair.begin + 1),
        });
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        self.pass = Some(self.encoder().begin_compute_pass(&descriptor).forget_lifetime());
    }
}

impl Sink for Encoder<'_> {
    fn takes_parts(&self) -> bool {
        !self.keeps
    }

    fn push(&mut self, command: Command) {
        match (&command, &mut self.pass) {
            (Command::BeginPass { timestamps }, _) => self.begin_pass(*timestamps),
            (Command::SetPipeline(variant), Some(pass)) => {
                pass.set_pipeline(&self.engine.pipelines[variant.index()].pipeline);
            }
            (Command::SetBindGroup { dispatch, params_offset }, Some(pass)) => {
                pass.set_bind_group(0, &self.engine.bind_groups[*dispatch as usize], &[*params_offset]);
            }
            (Command::WriteTimestamp { set, query }, Some(pass)) => {
                if let Some(queries) = self.queries {
                    pass.write_timestamp(&queries.sets[*set as usize], *query);
                }
            }
            (Command::Dispatch { x, y }, Some(pass)) => pass.dispatch_workgroups(*x, *y, 1),
            (Command::EndPass, _) => self.pass = None,
            (Command::Resolve { set, queries, offset_bytes }, _) => {
                if let Some(owned) = self.queries {
                    let set = &owned.sets[*set as usize];
                    self.encoder().resolve_query_set(set, queries.clone(), &owned.resolve, *offset_bytes);
                }
            }
            (Command::Copy { from, from_offset, to, to_offset, size_bytes }, _) => {
                let (from, to) = (self.place(*from), self.place(*to));
                if let (Some(from), Some(to)) = (from, to) {
                    self.encoder().copy_buffer_to_buffer(from, *from_offset, to, *to_offset, *size_bytes);
                }
            }
            (Command::Submit, _) => self.submit(),
            // The encode loop opens a pass before it sends these.
            (
                Command::SetPipeline(_)
                | Command::SetBindGroup { .. }
                | Command::WriteTimestamp { .. }
                | Command::Dispatch { .. },
                None,
            ) => {}
        }
        if let Some(tap) = &mut self.tap {
            tap.push(command);
        }
    }
}

/// An encoder of wgpu's.
pub(super) fn new_encoder(gpu: &Gpu) -> wgpu::CommandEncoder {
    gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("run") })
}
