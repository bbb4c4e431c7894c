//! Any bytes as the body of one interface, so that the fuzzer learns its words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use servegate::base::names::Api;
use servegate::wire::fuzz::check_stream;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (api, piece, body) = input;
    let api = Api::ALL[usize::from(api) % Api::ALL.len()];
    if let Err(broken) = check_stream(api, body, usize::from(piece), 200) {
        panic!("{api}: {broken}");
    }
});
