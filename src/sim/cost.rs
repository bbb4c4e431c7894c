//! How long one step of the engine takes.

use crate::sim::profile::Profile;

/// What a step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    /// Tokens of all chunks and decodes together.
    pub(crate) tokens: u32,
    /// Requests that take part.
    pub(crate) requests: u32,
    /// Cached tokens that the decoding requests read.
    pub(crate) cached: u32,
    /// Sum over the prefill chunks of `q (done + q / 2)`: half a squared prompt, once all its chunks are done.
    pub(crate) attention: f64,
}

/// The step's time in ms, before noise:
///
/// ```text
/// sqrt(weights^2 + (token * tokens)^2)      linear layers: bound by weights, then by arithmetic
/// + fixed + request * requests
/// + kv_read * kv_ratio * cached + kv_overhead
/// + 2 attention * sum of q (done + q / 2)
/// ```
///
/// The shape and the square-root blend are checked against Vidur's layer tables to about 5 %, except 16 %
/// too slow near the knee of 256 tokens; sources of the coefficients: [`crate::sim::profile`].
pub(crate) fn step_ms(profile: &Profile, work: &Work) -> f64 {
    let arithmetic = profile.token_us * 1e-3 * f64::from(work.tokens);
    profile.weights_ms.hypot(arithmetic)
        + profile.fixed_ms
        + profile.request_us * 1e-3 * f64::from(work.requests)
        + profile.kv_read_ns * 1e-6 * profile.kv_ratio * f64::from(work.cached)
        + profile.kv_overhead_ms
        + 2.0 * profile.attention_ps * 1e-9 * work.attention
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decode_step_is_the_published_intercept_plus_slope() {
        let profile = Profile::h100_8b();
        for cached in [0, 10_000, 100_000] {
            let work = Work { tokens: 1, requests: 1, cached, attention: 0.0 };
            // vLLM blog: 6.44 ms + 4.37e-5 ms per cached token.
            let published = 6.44 + 4.37e-5 * f64::from(cached);
            assert!((step_ms(&profile, &work) / published - 1.0).abs() < 0.001);
        }
    }

    #[test]
    fn fp8_breaks_even_near_seven_thousand_cached_tokens() {
        let bf16 = Profile::h100_8b();
        let fp8 = Profile { kv_ratio: 2.37 / 4.37, kv_overhead_ms: 0.14, ..Profile::h100_8b() };
        let gain = |cached| {
            let work = Work { tokens: 1, requests: 1, cached, attention: 0.0 };
            step_ms(&bf16, &work) - step_ms(&fp8, &work)
        };
        // vLLM blog: break-even at 7,010 cached tokens.
        assert!(gain(6_990) < 0.0 && gain(7_030) > 0.0);
    }

    #[test]
    fn the_chunks_of_a_prompt_sum_to_its_square() {
        let profile = Profile { weights_ms: 0.0, token_us: 0.0, fixed_ms: 0.0, request_us: 0.0, ..Profile::h100_8b() };
        let chunk = |done: f64, q: f64| {
            step_ms(&profile, &Work { tokens: 1, requests: 1, cached: 0, attention: q * (done + q / 2.0) })
        };
        let whole = 6.6e-7 * 6_000.0 * 6_000.0;
        let chunks = chunk(0.0, 2_048.0) + chunk(2_048.0, 2_048.0) + chunk(4_096.0, 1_904.0);
        assert!((chunks / whole - 1.0).abs() < 1e-9, "{chunks} {whole}");
    }
}
