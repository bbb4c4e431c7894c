//! servegate
fn main() {}
