//! Any bytes as the body of every interface.

#![no_main]

use libfuzzer_sys::fuzz_target;
use servegate::wire::fuzz::check_body;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, body) = input;
    if let Err(broken) = check_body(body, usize::from(piece)) {
        panic!("{broken}");
    }
});
