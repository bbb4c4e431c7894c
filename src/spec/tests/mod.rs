//! Tests of whole files: what is shipped, what is malformed, what is documented.

mod files;
mod help;
mod malformed;
mod pictures;
mod schemas;

use crate::base::diagnostic::Diagnostic;
use crate::spec::workload::Workload;
use crate::spec::{FileKind, kind_of, read_config, read_policy, read_workload};

/// A workload with one small cell, one whose answers may have one token, and one for p99.
const WORKLOAD: &str = "\
servegate: 1
kind: workload
name: w
cells:
  - {name: c1, concurrency: 1, requests: 50, prompt_tokens: 512, output_tokens: 128}
  - {name: c8, concurrency: 8, requests: 1000, prompt_tokens: 512, output_tokens: {uniform: {min: 64, max: 128}}}
";

fn workload() -> Workload {
    read_workload("w.yaml", WORKLOAD).unwrap().value
}

/// Every finding, whatever the kind of file; policies are bound to [`WORKLOAD`].
fn findings(text: &str) -> Vec<Diagnostic> {
    match kind_of("f.yaml", text) {
        Err(findings) => findings,
        Ok(FileKind::Workload) => read_workload("f.yaml", text).map_or_else(|found| found, |read| read.warnings),
        Ok(FileKind::Config) => read_config("f.yaml", text).map_or_else(|found| found, |read| read.warnings),
        Ok(FileKind::Policy) => {
            read_policy("f.yaml", text).bind(&workload()).map_or_else(|found| found, |read| read.warnings)
        }
    }
}
