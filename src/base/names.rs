//! The names that users, files and reports share: metrics, statistics, roles, sides, dialects,
//! conditions. They live here so that `spec` can refuse an unknown one by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares an enum whose variants have one text form each, used in YAML, JSON and messages.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every name, in the order of the reports.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text form.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value with this text form.
            pub fn from_id(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|name| name.id() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.id())
            }
        }
    };
}

names! {
    /// The version of HTTP that a target is spoken to in.
    HttpVersion {
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2: over TLS by agreement, in plain text by prior knowledge.
        Http2 = "http2",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro has no place for a default")]
impl Default for HttpVersion {
    fn default() -> Self {
        Self::Http1
    }
}

names! {
    /// What is measured. Definitions: `docs/reference/metrics.md`; computations: `artifact::metrics`.
    Metric {
        /// Time to first token: due instant to first content.
        Ttft = "ttft",
        /// Time to first answer: due instant to the first content after reasoning.
        Ttfa = "ttfa",
        /// Time per output token: (last content - first content) / (output tokens - 1), one per request.
        Tpot = "tpot",
        /// Inter-token latency: a chunk gap divided by the chunk's tokens; a run gives quantiles of its gaps.
        Itl = "itl",
        /// Gap between two content chunks, however many tokens each holds.
        ChunkGap = "chunk_gap",
        /// The median chunk gap of a request: the rhythm in which its reader sees text appear.
        Cadence = "cadence",
        /// The largest chunk gap of a request.
        Stall = "stall",
        /// End to end: due instant to last content.
        E2e = "e2e",
        /// How much longer the first token takes for each 1,000 tokens of context.
        TtftSlope = "ttft_slope",
        /// Output tokens of successful requests per second of the cell's measured window.
        Throughput = "throughput",
        /// Successful requests per second that met every objective of the check.
        Goodput = "goodput",
        /// Share of the prompt tokens that the server read from its prefix cache.
        CacheHitRate = "cache_hit_rate",
        /// Share of attempted requests that failed.
        ErrorRate = "error_rate",
        /// Output tokens per successful request.
        OutputTokens = "output_tokens",
    }
}

/// Which way of a metric is harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Larger is worse: times, error rates.
    LowerIsBetter,
    /// Smaller is worse: throughput, goodput.
    HigherIsBetter,
    /// Any change beyond the margin is harm: output length.
    TwoSided,
}

/// What one value of a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A time per request; statistics over the run's requests.
    PerRequest,
    /// A time per chunk gap; statistics over the run's gaps.
    PerGap,
    /// One number per run.
    PerRun,
    /// A share of requests, compared by absolute difference.
    Proportion,
}

impl Metric {
    /// Which way is harm.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Throughput | Self::Goodput | Self::CacheHitRate => Direction::HigherIsBetter,
            Self::OutputTokens => Direction::TwoSided,
            Self::Ttft
            | Self::Ttfa
            | Self::Tpot
            | Self::Itl
            | Self::ChunkGap
            | Self::Cadence
            | Self::Stall
            | Self::E2e
            | Self::TtftSlope
            | Self::ErrorRate => Direction::LowerIsBetter,
        }
    }

    /// What one value is.
    pub const fn scale(self) -> Scale {
        match self {
            Self::Ttft | Self::Ttfa | Self::Tpot | Self::Cadence | Self::Stall | Self::E2e => Scale::PerRequest,
            Self::Itl | Self::ChunkGap => Scale::PerGap,
            Self::Throughput | Self::Goodput | Self::OutputTokens | Self::TtftSlope | Self::CacheHitRate => {
                Scale::PerRun
            }
            Self::ErrorRate => Scale::Proportion,
        }
    }

    /// Whether a value is a time, stored and shown in milliseconds.
    pub const fn is_time(self) -> bool {
        matches!(self.scale(), Scale::PerRequest | Scale::PerGap)
    }

    /// Whether two values are compared by their difference, in the unit of the metric, and not by their ratio: those that
    /// may be zero.
    pub const fn is_difference(self) -> bool {
        matches!(self, Self::ErrorRate | Self::TtftSlope)
    }

    /// The unit in which a change is shown: per cent of the baseline, or that of a difference.
    pub const fn change_unit(self) -> &'static str {
        match (self.is_difference(), self.scale()) {
            (false, _) => "%",
            (true, Scale::Proportion) => "pp",
            (true, Scale::PerRequest | Scale::PerGap | Scale::PerRun) => self.unit(),
        }
    }

    /// A change in [`Metric::change_unit`], and with how many decimals it is shown.
    pub const fn change_shown(self, change: f64) -> (f64, usize) {
        if matches!(self, Self::TtftSlope) { (change, 2) } else { (100.0 * change, 1) }
    }

    /// Whether a value needs two output tokens: a time between tokens or chunks.
    pub const fn needs_two_tokens(self) -> bool {
        match self {
            Self::Tpot | Self::Itl | Self::ChunkGap | Self::Cadence | Self::Stall => true,
            Self::Ttft
            | Self::Ttfa
            | Self::E2e
            | Self::TtftSlope
            | Self::Throughput
            | Self::Goodput
            | Self::CacheHitRate
            | Self::ErrorRate
            | Self::OutputTokens => false,
        }
    }

    /// Whether a longer answer changes a value though the server is as fast as before: such values are not compared
    /// where answers became longer.
    pub const fn depends_on_length(self) -> bool {
        match self {
            Self::E2e | Self::Throughput | Self::Goodput | Self::OutputTokens => true,
            Self::Ttft
            | Self::Ttfa
            | Self::Tpot
            | Self::Itl
            | Self::ChunkGap
            | Self::Cadence
            | Self::Stall
            | Self::TtftSlope
            | Self::CacheHitRate
            | Self::ErrorRate => false,
        }
    }

    /// The unit in which a value is reported.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Throughput => "tokens/s",
            Self::Goodput => "requests/s",
            Self::ErrorRate | Self::CacheHitRate => "share",
            Self::OutputTokens => "tokens",
            Self::TtftSlope => "ms/1k tokens",
            Self::Ttft
            | Self::Ttfa
            | Self::Tpot
            | Self::Itl
            | Self::ChunkGap
            | Self::Cadence
            | Self::Stall
            | Self::E2e => "ms",
        }
    }

    /// The identity of the definition: runs with different ones are not comparable. The number rises
    /// when the computation changes.
    pub const fn definition(self) -> &'static str {
        match self {
            Self::Ttft => "ttft/1",
            Self::Ttfa => "ttfa/1",
            Self::Tpot => "tpot/1",
            Self::Itl => "itl/1",
            Self::ChunkGap => "chunk_gap/1",
            Self::Cadence => "cadence/1",
            Self::Stall => "stall/1",
            Self::E2e => "e2e/1",
            Self::TtftSlope => "ttft_slope/1",
            Self::Throughput => "throughput/1",
            Self::Goodput => "goodput/1",
            Self::CacheHitRate => "cache_hit_rate/1",
            Self::ErrorRate => "error_rate/1",
            Self::OutputTokens => "output_tokens/1",
        }
    }

    /// The metric with its statistic, as in check names: `tpot.p50`; only the metric where it has one number a run.
    pub fn with(self, statistic: Statistic) -> String {
        if statistic == Statistic::Value { self.id().to_owned() } else { format!("{self}.{statistic}") }
    }

    /// Whether this statistic of the metric exists.
    pub const fn allows(self, statistic: Statistic) -> bool {
        match self.scale() {
            Scale::PerRequest | Scale::PerGap => !matches!(statistic, Statistic::Value),
            Scale::PerRun | Scale::Proportion => matches!(statistic, Statistic::Value),
        }
    }
}

names! {
    /// How a run's values become one number.
    Statistic {
        /// Median.
        P50 = "p50",
        /// 75th percentile.
        P75 = "p75",
        /// 90th percentile.
        P90 = "p90",
        /// 95th percentile.
        P95 = "p95",
        /// 99th percentile.
        P99 = "p99",
        /// Mean of the logarithms of the slowest 5 %.
        Tail05 = "tail05",
        /// The run's own number (throughput, error rate, output length).
        Value = "value",
    }
}

impl Statistic {
    /// The level of a quantile statistic.
    pub const fn level(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.50),
            Self::P75 => Some(0.75),
            Self::P90 => Some(0.90),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::Tail05 | Self::Value => None,
        }
    }

    /// The fewest values of a run for which the statistic may decide (`n (1 - p) >= 10`).
    pub const fn floor(self) -> usize {
        match self {
            Self::P50 => 20,
            Self::P75 => 40,
            Self::P90 | Self::Tail05 => 100,
            Self::P95 => 200,
            Self::P99 => 1_000,
            Self::Value => 1,
        }
    }
}

names! {
    /// What a check may do to the gate.
    Role {
        /// Must be shown inside its margin.
        Required = "required",
        /// Blocks only when shown worse.
        Guard = "guard",
        /// Never blocks.
        Advisory = "advisory",
    }
}

names! {
    /// Which deployment a run measured.
    Side {
        /// The approved release, in sessions of its own.
        Baseline = "baseline",
        /// The baseline image, inside the candidate's session.
        Control = "control",
        /// The change under judgement.
        Candidate = "candidate",
    }
}

names! {
    /// What a workload declares about the caches of the server.
    Caches {
        /// The server empties them before each run.
        Reset = "reset",
        /// Every run sends prompts that no earlier run sent.
        Salted = "salted",
        /// `reset` where the server offers it, else `salted`.
        Cold = "cold",
    }
}

names! {
    /// What kept the caches of the server from answering with what earlier runs had left.
    CacheMode {
        /// The server emptied them before the run.
        Reset = "reset",
        /// The run sent prompts that no earlier run had sent.
        Salted = "salted",
    }
}

impl Caches {
    /// Whether this is a way to do what is declared.
    pub const fn admits(self, mode: CacheMode) -> bool {
        match self {
            Self::Reset => matches!(mode, CacheMode::Reset),
            Self::Salted => matches!(mode, CacheMode::Salted),
            Self::Cold => true,
        }
    }
}

names! {
    /// The HTTP interface of a target; one file each in `wire::dialect`.
    Api {
        /// OpenAI chat completions, streaming.
        Chat = "chat",
        /// OpenAI completions, streaming.
        Completions = "completions",
        /// OpenAI Responses, streaming.
        Responses = "responses",
        /// Anthropic messages, streaming.
        Anthropic = "anthropic",
        /// Text Generation Inference's `generate_stream`.
        Tgi = "tgi",
        /// SGLang's own `generate`.
        Sglang = "sglang",
        /// llama.cpp's own `completion`.
        Llamacpp = "llamacpp",
        /// Ollama's chat: a JSON text a line.
        OllamaChat = "ollama_chat",
        /// Ollama's plain generation: a JSON text a line.
        OllamaGenerate = "ollama_generate",
        /// Triton's `generate_stream`, for TensorRT-LLM and vLLM.
        Triton = "triton",
    }
}

impl Api {
    /// Whether a request can force the output length there: by `ignore_eos` or a least number of tokens, which
    /// some server of the interface knows.
    pub const fn forces_length(self) -> bool {
        !matches!(self, Self::Tgi | Self::OllamaChat | Self::OllamaGenerate)
    }
}

names! {
    /// A fact that a measured number depends on.
    Condition {
        /// Model name as served.
        Model = "model",
        /// Revision of the weights.
        ModelRevision = "model_revision",
        /// Engine name.
        Engine = "engine",
        /// Engine version.
        EngineVersion = "engine_version",
        /// Digest of the container image.
        ImageDigest = "image_digest",
        /// Accelerator model and count, or the CPU.
        Hardware = "hardware",
        /// Driver version.
        Driver = "driver",
        /// Weight quantisation.
        Quantization = "quantization",
        /// Data type of the key-value cache.
        KvCacheDtype = "kv_cache_dtype",
        /// Tensor, pipeline, data and expert parallelism.
        Parallelism = "parallelism",
        /// Most sequences in a batch.
        MaxNumSeqs = "max_num_seqs",
        /// Most tokens in a step.
        MaxNumBatchedTokens = "max_num_batched_tokens",
        /// Whether prefixes are cached.
        PrefixCaching = "prefix_caching",
        /// Speculative decoding.
        Speculative = "speculative",
        /// Worker threads of a CPU engine.
        Threads = "threads",
        /// What `extra_body` adds to each request.
        RequestFields = "request_fields",
        /// The host that generates the load.
        GeneratorHost = "generator_host",
    }
}

impl Condition {
    /// Whether two runs may differ in it without being declared: recorded and shown, never compared.
    /// A new image, engine build or revision is what most gates are about, so those are for people to read.
    pub const fn is_nuisance(self) -> bool {
        matches!(self, Self::GeneratorHost | Self::ImageDigest | Self::EngineVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_every_metric_has_a_statistic() {
        for metric in Metric::ALL {
            assert_eq!(Metric::from_id(metric.id()), Some(*metric));
            assert!(metric.definition().starts_with(metric.id()));
            assert!(Statistic::ALL.iter().any(|statistic| metric.allows(*statistic)));
        }
        for statistic in Statistic::ALL.iter().filter(|s| s.level().is_some()) {
            let (n, p) = (f64::from(u32::try_from(statistic.floor()).unwrap()), statistic.level().unwrap());
            assert!((n * (1.0 - p) - 10.0).abs() < 1e-9, "{statistic}");
        }
        assert_eq!(Metric::from_id("latency"), None);
    }
}
