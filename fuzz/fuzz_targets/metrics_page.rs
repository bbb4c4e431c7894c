//! Any bytes as a metrics page.

#![no_main]

use libfuzzer_sys::fuzz_target;
use servegate::wire::fuzz::check_page;

fuzz_target!(|page: &[u8]| {
    if let Err(broken) = check_page(page) {
        panic!("{broken}");
    }
});
