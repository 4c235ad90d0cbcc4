//! Lookups in tables of 4-bit numbers against their f64 reference: both ways of packing, groups of any size, ids outside.

mod harness;

use harness::compare::{self, EXACT};
use harness::{bytes, i64_tensor, modest_gpu, random, rng, run_f32};
use torchlight::graph::{NibbleOrder, Quantised};
use torchlight::kernels::embedding_q4::{Lookup, LowColumn};
use torchlight::{DType, Graph, GraphBuilder, HostTensor, Input, Session, SessionOptions, reference};

const ORDERS: [(NibbleOrder, LowColumn); 2] =
    [(NibbleOrder::EvenLow, LowColumn::Even), (NibbleOrder::OddLow, LowColumn::Odd)];

/// A table with seeded content.
struct Table {
    lookup: Lookup,
    numbers: Vec<u8>,
    scales: Vec<u8>,
}

impl Table {
    /// `[rows, columns, group]`
    fn random([rows, columns, group]: [u32; 3]) -> Self {
        let rng = &mut rng(&format!("{rows} of {columns} in groups of {group}"));
        Self {
            lookup: Lookup { ids: 0, rows, columns, group },
            numbers: (0..rows * columns / 2).map(|_| rng.u8(..)).collect(),
            scales: bytes(&random(rng, (rows * columns / group) as usize)),
        }
    }

    /// A graph for up to so many ids.
    fn graph(&self, order: NibbleOrder, ids: u32) -> Graph<'_> {
        let Lookup { rows, columns, group, .. } = self.lookup;
        let mut graph = GraphBuilder::new("embedding");
        let weight = graph.constant(DType::U8, &[rows, columns / 2], &self.numbers).unwrap();
        let scales = graph.constant(DType::F32, &[rows, columns / group], &self.scales).unwrap();
        let ids = graph.input(DType::I64, &[1, ids]).unwrap();
        let out = graph.embedding_q4(Quantised { weight, scales, group }, order, ids).unwrap();
        graph.output(out);
        graph.finish().unwrap()
    }

    fn reference(&self, low: LowColumn, ids: &[i64]) -> Vec<f64> {
        let lookup = Lookup { ids: ids.len() as u32, ..self.lookup };
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let scales: Vec<f32> = bytemuck::pod_collect_to_vec(&self.scales);
        reference::embedding_q4::reference(&lookup, low, (&self.numbers, &scales), &ids)
    }
}

fn session(graph: &Graph<'_>) -> Session {
    Session::new(modest_gpu(), graph, SessionOptions::default()).unwrap()
}

fn row_of(ids: &[i64]) -> HostTensor {
    i64_tensor(&[1, ids.len() as u32], ids)
}

/// As f32 holds them: a number times a scale is one rounding.
fn rounded(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(|value| f64::from(value as f32)).collect()
}

#[test]
fn tables_of_any_size_agree_with_the_reference() {
    for sizes in
        [[1, 2, 1], [1, 2, 2], [7, 6, 3], [64, 64, 32], [64, 64, 64], [5, 130, 26], [300, 128, 128], [33, 34, 17]]
    {
        let table = Table::random(sizes);
        for (order, low) in ORDERS {
            let mut session = session(&table.graph(order, 33));
            for count in [1, 2, 5, 32, 33, 1] {
                let case = format!("{sizes:?}, {order:?}, {count} ids");
                let rng = &mut rng(&case);
                let mut ids: Vec<i64> = (0..count).map(|_| rng.i64(0..i64::from(sizes[0]))).collect();
                // Both ends of the table.
                ids[0] = i64::from(sizes[0]) - 1;
                ids[count - 1] = if count > 1 { 0 } else { ids[0] };
                let got = run_f32(&mut session, &[&row_of(&ids)]).unwrap_or_else(|error| panic!("{case}: {error}"));
                compare::assert_close(case, &got, &rounded(table.reference(low, &ids)), EXACT);
            }
        }
    }
}

#[test]
fn an_id_outside_the_table_is_refused_before_anything_is_written() {
    let table = Table::random([7, 6, 3]);
    let mut session = session(&table.graph(NibbleOrder::EvenLow, 3));
    for (ids, wrong) in [([0, 7, 1], 7), ([-1, 0, 0], -1), ([6, 5, 2_147_483_647], 2_147_483_647)] {
        let error = run_f32(&mut session, &[&row_of(&ids)]).unwrap_err().to_string();
        assert_eq!(error, format!("embedding_q4gsw (node 0): id {wrong} is outside a table of 7 rows"));
    }
    let ids = [6, 0, 3];
    let got = run_f32(&mut session, &[&row_of(&ids)]).unwrap();
    compare::assert_close("after", &got, &rounded(table.reference(LowColumn::Even, &ids)), EXACT);
}

#[test]
fn an_id_that_the_host_does_not_see_takes_the_nearest_row() {
    let table = Table::random([7, 6, 3]);
    let mut graph = table.graph(NibbleOrder::EvenLow, 4);
    for node in &mut graph.nodes {
        if let torchlight::graph::Operator::EmbeddingQ4(op) = &mut node.operator {
            op.ids_input = None;
        }
    }
    let ids = [-3, 7, i64::from(i32::MAX), i64::from(i32::MIN)];
    let got = run_f32(&mut session(&graph), &[&row_of(&ids)]).unwrap();
    compare::assert_close("clamped", &got, &rounded(table.reference(LowColumn::Even, &ids)), EXACT);
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    let refusal = |weight: &[u32], scales: &[u32], group| {
        let mut graph = GraphBuilder::new("refused");
        let weight = graph.input(DType::U8, weight).unwrap();
        let scales = graph.input(DType::F32, scales).unwrap();
        let ids = graph.input(DType::I32, &[2]).unwrap();
        graph.embedding_q4(Quantised { weight, scales, group }, NibbleOrder::OddLow, ids).unwrap();
        graph.finish().map(|graph| graph.nodes.len()).unwrap_err().to_string()
    };
    for (weight, scales, group, wanted) in [
        (&[4, 5][..], &[4, 2][..], 4, "groups of 4 do not divide the 10 columns of table [4, 5]"),
        (&[4, 5], &[4, 2], 0, "groups of 0 do not divide the 10 columns of table [4, 5]"),
        (&[4, 5], &[2, 4], 5, "table [4, 5] in groups of 5 wants scales [4, 2], got [2, 4]"),
        (&[20], &[4, 2], 5, "wants a table of rank 2, got [20]"),
    ] {
        assert_eq!(refusal(weight, scales, group), format!("embedding_q4gsw (node 0): {wanted}"));
    }
}

#[test]
fn grids_fold_at_the_limit() {
    let mut table = Table::random([16, 64, 64]);
    table.scales = bytes(&[1.0; 16]);
    for (workgroups, wanted) in [(65535, [65535, 1]), (65536, [65535, 2])] {
        // Rows of 64 elements, so that an id is a workgroup.
        let ids: Vec<i64> = (0..workgroups).map(|i| i % 16).collect();
        let mut session = session(&table.graph(NibbleOrder::EvenLow, workgroups as u32));
        let (outputs, commands) = session.run_recorded(&[Input::from(&row_of(&ids))]).unwrap();
        assert!(commands.contains(&torchlight::gpu::Command::Dispatch { x: wanted[0], y: wanted[1] }));
        let row: Vec<f64> = table.reference(LowColumn::Even, &ids[..16]);
        let (elements, []) = outputs[0].tensor().unwrap().bytes().as_chunks::<4>() else { panic!("no f32") };
        assert_eq!(elements.len(), ids.len() * 64);
        // Enough of them to meet every workgroup, in every place.
        for (index, got) in elements.iter().enumerate().step_by(7) {
            assert_eq!(f64::from(f32::from_le_bytes(*got)), row[index % row.len()], "element {index}");
        }
    }
}
