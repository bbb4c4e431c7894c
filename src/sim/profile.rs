//! The coefficients of a simulated engine, as data. Every one of them has a name, a unit, a range and,
//! in each preset, a source; scenarios and `--set name=value` change them by name.

/// A coefficient's place, written and checked by name.
trait Coefficient {
    fn get(&self) -> f64;
    /// False when the value does not fit the coefficient's type.
    fn put(&mut self, value: f64) -> bool;
}

impl Coefficient for f64 {
    fn get(&self) -> f64 {
        *self
    }

    fn put(&mut self, value: f64) -> bool {
        *self = value;
        true
    }
}

impl Coefficient for u32 {
    fn get(&self) -> f64 {
        f64::from(*self)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the result is compared with the input"
    )]
    fn put(&mut self, value: f64) -> bool {
        let whole = value as Self;
        let exact = (f64::from(whole) - value).abs() < f64::EPSILON;
        if exact {
            *self = whole;
        }
        exact
    }
}

/// Declares the coefficients once: the fields, and the table by which they are found by name.
macro_rules! coefficients {
    ($($(#[$doc:meta])+ $name:ident: $type:ty, $low:literal to $high:literal;)+) => {
        /// A simulated engine: model, accelerator and serving configuration in numbers.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Profile {
            /// Name of the preset it started from.
            pub name: &'static str,
            /// Model name as served.
            pub model: &'static str,
            $($(#[$doc])+ pub $name: $type,)+
        }

        impl Profile {
            /// The names that [`Profile::set`] and scenarios may use.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            fn slot(&mut self, name: &str) -> Option<(&mut dyn Coefficient, f64, f64)> {
                match name {
                    $(stringify!($name) => Some((&mut self.$name, $low, $high)),)+
                    _ => None,
                }
            }
        }
    };
}

coefficients! {
    /// Time to read the weights once, ms: the floor of the linear layers.
    weights_ms: f64, 0.0 to 1e4;
    /// Time of the linear layers per token when they are bound by arithmetic, us.
    token_us: f64, 0.0 to 1e5;
    /// Fixed time per step (launches, sampling, scheduling), ms.
    fixed_ms: f64, 0.0 to 1e4;
    /// Fixed time per request in a step, us.
    request_us: f64, 0.0 to 1e5;
    /// Time to read one cached token in decode, BF16 key-value cache, ns.
    kv_read_ns: f64, 0.0 to 1e6;
    /// Ratio of the cache's read time to that of BF16: below 1 for a quantised cache.
    kv_ratio: f64, 0.0 to 10.0;
    /// Fixed time per step that the cache's type costs (quantise kernels that are not fused), ms.
    kv_overhead_ms: f64, 0.0 to 1e4;
    /// Prefill attention, ps per token squared of the prompt.
    attention_ps: f64, 0.0 to 1e6;
    /// Capacity of the key-value cache, tokens.
    kv_capacity_tokens: u32, 16.0 to 1e9;
    /// Tokens per cache block.
    block_tokens: u32, 1.0 to 4096.0;
    /// Prompt tokens that the prefix cache keeps; 0 is an engine without one.
    prefix_cache_tokens: u32, 0.0 to 1e9;
    /// Share of the cache's blocks that an admission must leave free.
    watermark: f64, 0.0 to 0.9;
    /// Most tokens in a step; what decoding leaves of it is for prefill chunks.
    max_num_batched_tokens: u32, 1.0 to 1e6;
    /// Most requests in a step.
    max_num_seqs: u32, 1.0 to 65536.0;
    /// Longest prompt and answer together, tokens.
    max_model_len: u32, 2.0 to 1e7;
    /// Serial time of the API process per request, ms.
    frontend_ms: f64, 0.0 to 1e5;
    /// Serial time of the API process per prompt token (tokeniser), us.
    tokenise_us: f64, 0.0 to 1e5;
    /// Further delay of a request before the scheduler sees it, not serial, ms.
    api_ms: f64, 0.0 to 1e5;
    /// From the end of a step to the chunk on the wire (detokenise, encode, flush), us.
    flush_us: f64, 0.0 to 1e6;
    /// Standard deviation of the logarithm of a step's time.
    sigma_step: f64, 0.0 to 1.0;
    /// Standard deviation of the logarithm of a boot's factor.
    sigma_boot: f64, 0.0 to 1.0;
    /// Standard deviation of the logarithm of a session's factor.
    sigma_session: f64, 0.0 to 1.0;
}

/// What a scenario does to a coefficient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Gives it this value.
    Set(f64),
    /// Multiplies it.
    Scale(f64),
}

/// A coefficient cannot be changed as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetError {
    /// Not `name=value`.
    #[error("`{}` is not of the form name=value with a number as the value", .0.escape_debug())]
    Syntax(String),
    /// No such coefficient.
    #[error("the simulated engine has no parameter `{}`: choose one of {}", .0.escape_debug(), Profile::NAMES.join(", "))]
    Unknown(String),
    /// The value is outside the coefficient's range, or not whole where it must be.
    #[error("`{name}` cannot be {value}: give a {kind} from {low} to {high}")]
    Value {
        /// The coefficient.
        name: String,
        /// The refused value.
        value: f64,
        /// `number` or `whole number`.
        kind: &'static str,
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
}

impl Profile {
    /// Sets a coefficient from text of the form `name=value`.
    ///
    /// # Errors
    /// When the text has another form, the name is unknown, or the value does not fit.
    pub fn set(&mut self, assignment: &str) -> Result<(), SetError> {
        let syntax = || SetError::Syntax(assignment.to_owned());
        let (name, value) = assignment.split_once('=').ok_or_else(syntax)?;
        self.change(name.trim(), Change::Set(value.trim().parse().ok().ok_or_else(syntax)?))
    }

    /// Changes a coefficient by name.
    ///
    /// # Errors
    /// When the name is unknown or the new value does not fit; the coefficient then keeps its value.
    pub fn change(&mut self, name: &str, change: Change) -> Result<(), SetError> {
        let (slot, low, high) = self.slot(name).ok_or_else(|| SetError::Unknown(name.to_owned()))?;
        let value = match change {
            Change::Set(value) => value,
            Change::Scale(factor) => slot.get() * factor,
        };
        let refuse = |kind| SetError::Value { name: name.to_owned(), value, kind, low, high };
        if !(low..=high).contains(&value) {
            return Err(refuse("number"));
        }
        if slot.put(value) { Ok(()) } else { Err(refuse("whole number")) }
    }

    /// The preset with this name.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).cloned()
    }

    /// Llama 3.1 8B, BF16 weights, on one H100: the preset whose figures are checked against published ones.
    pub const fn h100_8b() -> Self {
        H100_8B
    }
}

/// Every preset. A new one is one entry; `docs/simulator.md` lists the sources.
pub const PRESETS: &[Profile] = &[H100_8B];

const H100_8B: Profile = Profile {
    name: "h100-8b",
    model: "llama-3.1-8b",
    // With fixed_ms: decode intercept 6.44 ms at batch 1 (vLLM blog on FP8 key-value caches, Llama-3.1-8B, H100).
    weights_ms: 5.6,
    // Vidur's H100 profile of Llama-2-7B, 0.637 us per token and layer x 32 layers x 1.046 (8B to 7B, from A100).
    token_us: 21.3,
    // What the intercept leaves after weights_ms.
    fixed_ms: 0.84,
    // BLIS (inference-sim `defaults.yaml`): 4.42 us per request and step.
    request_us: 4.42,
    // Slope of the same blog: 4.37e-5 ms per cached token in BF16 (2.37e-5 in FP8 is kv_ratio 0.54).
    kv_read_ns: 43.7,
    // BF16 is the unit.
    kv_ratio: 1.0,
    // BF16 writes the cache without quantising.
    kv_overhead_ms: 0.0,
    // 6.6e-7 ms per token squared, from Vidur's H100 prefill attention.
    attention_ps: 660.0,
    // vLLM issue 19996 logs 410,128 tokens in 51.6 GiB; rounded.
    kv_capacity_tokens: 400_000,
    // vLLM's default on CUDA.
    block_tokens: 16,
    // None: most cells share nothing, and a cell about it sets its size.
    prefix_cache_tokens: 0,
    // vLLM V1 admits down to the last block.
    watermark: 0.0,
    // vLLM V1's default for an online server.
    max_num_batched_tokens: 2048,
    // vLLM V1's default for an online server on this class of accelerator is 256 to 1024.
    max_num_seqs: 256,
    // The model's context.
    max_model_len: 131_072,
    // Own estimate: request parsing and validation in one Python process.
    frontend_ms: 0.5,
    // TensorRT-LLM PR 13377: 1.25 us per token.
    tokenise_us: 1.25,
    // Own estimate; BLIS has 15.56 ms for all of the API. Shorter than half a step, so that in a closed loop the
    // next request meets the next step: see docs/simulator.md on resonance.
    api_ms: 3.0,
    // BLIS: 45.9 us per output token.
    flush_us: 46.0,
    // Step jitter of 1 to 2 %.
    sigma_step: 0.015,
    // A good host: vLLM issue 28300 settles at 1.85 % over starts of one build, ordinary hosts have 2 to 3 %.
    sigma_boot: 0.01,
    // Same order as the boot: mssql-rs issue 434 saw 4 to 8 % between sessions of shared machines.
    sigma_session: 0.01,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_set_by_name_and_presets_lie_in_their_ranges() {
        for preset in PRESETS {
            let mut profile = preset.clone();
            for name in Profile::NAMES {
                profile.change(name, Change::Scale(1.0)).unwrap();
            }
            assert_eq!(&profile, preset);
            assert_eq!(Profile::preset(preset.name).as_ref(), Some(preset));
        }
        let mut profile = Profile::h100_8b();
        profile.set("kv_ratio = 0.6").unwrap();
        profile.set("max_num_seqs=64").unwrap();
        assert!((profile.kv_ratio - 0.6).abs() < 1e-12);
        assert_eq!(profile.max_num_seqs, 64);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason_and_changes_nothing() {
        let mut profile = Profile::h100_8b();
        for (text, reason) in [
            ("kv_ratio", "`kv_ratio` is not of the form name=value"),
            ("kv_ratio=fast", "not of the form"),
            ("warp=9", "no parameter `warp`: choose one of weights_ms, "),
            ("kv_ratio=-1", "`kv_ratio` cannot be -1: give a number from 0 to 10"),
            ("kv_ratio=NaN", "cannot be NaN"),
            ("max_num_seqs=1.5", "`max_num_seqs` cannot be 1.5: give a whole number from 1 to 65536"),
        ] {
            let message = profile.set(text).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
        assert_eq!(profile, Profile::h100_8b());
    }
}
