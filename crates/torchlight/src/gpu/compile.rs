//! Kernels to pipelines: drivers take up to a second for a large one.

use super::adapter::Gpu;
use super::pipelines::{BoundsChecks, Pipeline};
use super::scope::Scopes;
use crate::error::Result;
use crate::kernels::Variant;

impl Gpu {
    /// Compiles kernel variants ahead of the sessions that use them.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) where the driver refuses one.
    pub async fn compile(&self, variants: &[Variant], checks: BoundsChecks) -> Result<()> {
        self.compiled(variants, checks, |_| {}).await.map(drop)
    }

    /// [`Self::compile`] for programs that may block. Threads can share out the variants: the library has none of its own.
    ///
    /// # Errors
    /// As [`Self::compile`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile_blocking(&self, variants: &[Variant], checks: BoundsChecks) -> Result<()> {
        pollster::block_on(self.compile(variants, checks))
    }

    /// One pipeline a variant, in order: those that are known, and new ones. `done` hears how many there are.
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
        let scopes = Scopes::open(self);
        let pipeline = self.pipelines.compile(&self.device, variant, checks);
        scopes.close().check(&format!("compiling {}", variant.label)).await?;
        self.pipelines.keep(variant, checks, &pipeline);
        Ok(pipeline)
    }
}
