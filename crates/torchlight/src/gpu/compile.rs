//! Kernels to pipelines, several at a time: drivers take up to a second for a large one.

use super::adapter::Gpu;
use super::pipelines::{BoundsChecks, Pipeline};
use super::scope::Scopes;
use crate::error::Result;
use crate::kernels::Variant;

impl Gpu {
    /// Compiles kernel variants ahead of the sessions that use them, natively on as many threads as the machine runs at once.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) where the driver refuses one.
    pub async fn compile(&self, variants: &[Variant], checks: BoundsChecks) -> Result<()> {
        self.compiled(variants, checks, |_| {}).await.map(drop)
    }

    /// One pipeline a variant, in order: those that are known, and new ones. `done` hears how many there are, on the caller's
    /// thread.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) async fn compiled(
        &self,
        variants: &[Variant],
        checks: BoundsChecks,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<Pipeline>> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        use std::sync::mpsc::{Sender, channel};

        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(variants.len());
        let next = AtomicUsize::new(0);
        let work = &|made: Sender<(usize, Result<Pipeline>)>| {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(variant) = variants.get(index) else { break };
                let pipeline = pollster::block_on(self.compiled_one(variant, checks));
                // Where one was refused, nobody waits for the others.
                if made.send((index, pipeline)).is_err() {
                    break;
                }
            }
        };
        let (sender, made) = channel();
        let mut pipelines = std::thread::scope(|scope| {
            for sender in std::iter::repeat_n(sender, threads) {
                scope.spawn(move || work(sender));
            }
            let mut pipelines = Vec::with_capacity(variants.len());
            for (index, pipeline) in made {
                pipelines.push((index, pipeline?));
                done(pipelines.len());
            }
            Ok::<_, crate::error::Error>(pipelines)
        })?;
        pipelines.sort_by_key(|(index, _)| *index);
        Ok(pipelines.into_iter().map(|(_, pipeline)| pipeline).collect())
    }

    /// One pipeline a variant, in order: those that are known, and new ones. `done` hears how many there are.
    #[cfg(target_arch = "wasm32")]
    pub(crate) async fn compiled(
        &self,
        variants: &[Variant],
        checks: BoundsChecks,
        mut done: impl FnMut(usize),
    ) -> Result<Vec<Pipeline>> {
        let mut pipelines = Vec::with_capacity(variants.len());
        for variant in variants {
            pipelines.push(self.compiled_one(variant, checks).await?);
            done(pipelines.len());
        }
        Ok(pipelines)
    }

    async fn compiled_one(&self, variant: &Variant, checks: BoundsChecks) -> Result<Pipeline> {
        if let Some(known) = self.pipelines.known(variant, checks) {
            return Ok(known);
        }
        // Scopes are a thread's own.
        let scopes = Scopes::open(self);
        let pipeline = self.pipelines.compile(&self.device, variant, checks);
        scopes.close().check(&format!("compiling {}", variant.label)).await?;
        self.pipelines.keep(variant, checks, &pipeline);
        Ok(pipeline)
    }
}
