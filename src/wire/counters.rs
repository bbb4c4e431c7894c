//! What a server counts about itself: the engines' names for it, one page to a snapshot of our few numbers, and the
//! seam to whatever reads a page.
//!
//! A quantity that a page does not give, or gives in a way that cannot be trusted, is unknown; nothing is guessed.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::units::Nanos;
use crate::wire::exposition::{Page, Sample};

/// A number that a server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Counter: prompt tokens, those from the cache included where the engine tells them.
    PromptTokens,
    /// Counter: generated tokens.
    GeneratedTokens,
    /// Counter: requests that lost their place in the batch.
    Preemptions,
    /// Counter: prompt tokens that were looked up in the prefix cache (blocks, in early versions of vLLM).
    CacheQueries,
    /// Counter: those that were found there.
    CacheHits,
    /// Gauge: requests in the batch.
    Running,
    /// Gauge: requests in the queue.
    Waiting,
    /// Gauge: share of the key-value cache in use; the fullest of several engines.
    KvUse,
    /// When the process started, in Unix seconds; the latest of several.
    Started,
}

/// How the samples of a name become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    Sum,
    Largest,
}

/// One name, or several that add up, for a quantity.
struct Row {
    gives: Quantity,
    /// All of them must be there.
    names: &'static [&'static str],
    /// Only samples with this label.
    only: Option<(&'static str, &'static str)>,
}

const fn row(gives: Quantity, names: &'static [&'static str]) -> Row {
    Row { gives, names, only: None }
}

const fn with(gives: Quantity, names: &'static [&'static str], label: &'static str, value: &'static str) -> Row {
    Row { gives, names, only: Some((label, value)) }
}

/// The engines' names. For each quantity the first line whose names are on the page counts. `ray_` in front of a
/// name and `_` in place of `:` make no difference.
const NAMES: &[Row] = &[
    // vLLM; the names with `gpu_` are those of V0 and of early V1.
    row(Quantity::PromptTokens, &["vllm:prompt_tokens_total"]),
    row(Quantity::GeneratedTokens, &["vllm:generation_tokens_total"]),
    row(Quantity::Preemptions, &["vllm:num_preemptions_total"]),
    row(Quantity::CacheQueries, &["vllm:prefix_cache_queries_total"]),
    row(Quantity::CacheQueries, &["vllm:gpu_prefix_cache_queries_total"]),
    row(Quantity::CacheHits, &["vllm:prefix_cache_hits_total"]),
    row(Quantity::CacheHits, &["vllm:gpu_prefix_cache_hits_total"]),
    row(Quantity::Running, &["vllm:num_requests_running"]),
    row(Quantity::Waiting, &["vllm:num_requests_waiting"]),
    row(Quantity::KvUse, &["vllm:kv_cache_usage_perc"]),
    row(Quantity::KvUse, &["vllm:gpu_cache_usage_perc"]),
    // SGLang counts a request when it has ended.
    row(Quantity::PromptTokens, &["sglang:prompt_tokens_total"]),
    row(Quantity::GeneratedTokens, &["sglang:generation_tokens_total"]),
    row(Quantity::Preemptions, &["sglang:num_retracted_requests_total"]),
    row(Quantity::CacheQueries, &["sglang:prompt_tokens_total"]),
    row(Quantity::CacheHits, &["sglang:cached_tokens_total"]),
    row(Quantity::Running, &["sglang:num_running_reqs"]),
    row(Quantity::Waiting, &["sglang:num_queue_reqs"]),
    row(Quantity::KvUse, &["sglang:token_usage"]),
    // llama.cpp counts a request when it has ended, and cached prompt tokens apart.
    row(Quantity::PromptTokens, &["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"]),
    row(Quantity::PromptTokens, &["llamacpp:prompt_tokens_total"]),
    row(Quantity::GeneratedTokens, &["llamacpp:tokens_predicted_total"]),
    row(Quantity::CacheQueries, &["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"]),
    row(Quantity::CacheHits, &["llamacpp:prompt_tokens_cached_total"]),
    row(Quantity::Running, &["llamacpp:requests_processing"]),
    row(Quantity::Waiting, &["llamacpp:requests_deferred"]),
    row(Quantity::KvUse, &["llamacpp:kv_cache_usage_ratio"]),
    // TGI has histograms in place of counters; their sums rise when a request has ended.
    row(Quantity::PromptTokens, &["tgi_request_input_length_sum"]),
    row(Quantity::GeneratedTokens, &["tgi_request_generated_tokens_sum"]),
    row(Quantity::Running, &["tgi_batch_current_size"]),
    row(Quantity::Waiting, &["tgi_queue_size"]),
    // TensorRT-LLM behind Triton.
    with(Quantity::Running, &["nv_trt_llm_request_metrics"], "request_type", "scheduled"),
    with(Quantity::Waiting, &["nv_trt_llm_request_metrics"], "request_type", "waiting"),
    with(Quantity::KvUse, &["nv_trt_llm_kv_cache_block_metrics"], "kv_cache_block_type", "fraction"),
    // Every client library for Python and Go.
    row(Quantity::Started, &["process_start_time_seconds"]),
];

/// Where engines tell the tokens of a cache block: a label of a sample that says nothing else.
const BLOCKS: [(&str, &str); 2] = [("vllm:cache_config_info", "block_size"), ("sglang:cache_config_info", "page_size")];

/// Labels that tell the model.
const MODEL_LABELS: [&str; 2] = ["model_name", "model"];

/// The numbers of one page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    known: BTreeMap<Quantity, f64>,
    block_tokens: Option<u32>,
}

impl Snapshot {
    /// What a page tells about `model`. Samples of one name are added over engines and other labels; where they are
    /// of several models, only those of `model` count.
    pub fn of(page: &Page<'_>, model: &str) -> Self {
        let mut by_name: BTreeMap<String, Vec<&Sample<'_>>> = BTreeMap::new();
        let wanted: BTreeSet<String> = NAMES.iter().flat_map(|row| row.names).map(|name| canonical(name)).collect();
        for sample in &page.samples {
            let name = canonical(&sample.name);
            if wanted.contains(&name) {
                by_name.entry(name).or_default().push(sample);
            }
        }
        let mut seen = BTreeSet::new();
        let mut snapshot = Self::default();
        for row in NAMES {
            let lists: Option<Vec<_>> = row.names.iter().map(|name| by_name.get(&canonical(name))).collect();
            let Some(lists) = lists.filter(|_| !seen.contains(&row.gives)) else { continue };
            seen.insert(row.gives);
            let sums: Option<Vec<f64>> = lists.into_iter().map(|samples| joined(samples, row, model)).collect();
            if let Some(sums) = sums {
                snapshot.known.insert(row.gives, sums.iter().sum());
            }
        }
        snapshot.block_tokens = block_tokens(page);
        snapshot
    }

    /// A snapshot of known numbers, for servers that need no page.
    pub fn known(numbers: impl IntoIterator<Item = (Quantity, f64)>) -> Self {
        Self { known: numbers.into_iter().collect(), block_tokens: None }
    }

    /// The same with the tokens of a cache block.
    #[must_use]
    pub fn in_blocks(self, block_tokens: u32) -> Self {
        Self { block_tokens: Some(block_tokens), ..self }
    }

    /// Tokens of a block of the key-value cache; none when it is not known, or engines differ in it.
    pub const fn block_tokens(&self) -> Option<u32> {
        self.block_tokens
    }

    /// A number; none when it is not known.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.known.get(&quantity).copied()
    }

    /// Whether it tells anything about serving.
    pub fn is_of_an_engine(&self) -> bool {
        self.known.keys().any(|quantity| *quantity != Quantity::Started)
    }
}

fn block_tokens(page: &Page<'_>) -> Option<u32> {
    let told = |sample: &Sample<'_>| {
        let name = canonical(&sample.name);
        let (_, label) = BLOCKS.iter().find(|(block, _)| canonical(block) == name)?;
        Some(sample.label(label).and_then(|tokens| tokens.parse().ok()).filter(|tokens| *tokens > 0))
    };
    let all: BTreeSet<Option<u32>> = page.samples.iter().filter_map(told).collect();
    if all.len() == 1 { all.into_iter().next().flatten() } else { None }
}

fn canonical(name: &str) -> String {
    name.strip_prefix("ray_").unwrap_or(name).replace(':', "_")
}

fn model_of<'a>(sample: &'a Sample<'_>) -> Option<&'a str> {
    MODEL_LABELS.iter().find_map(|label| sample.label(label))
}

/// One number from the samples of a name; none when one of them is no number, or when they are of several models
/// and none is ours.
fn joined(samples: &[&Sample<'_>], row: &Row, model: &str) -> Option<f64> {
    let join = if matches!(row.gives, Quantity::KvUse | Quantity::Started) { Join::Largest } else { Join::Sum };
    let labelled = |sample: &&&Sample<'_>| row.only.is_none_or(|(label, value)| sample.label(label) == Some(value));
    let relevant: Vec<_> = samples.iter().filter(labelled).collect();
    let models: BTreeSet<&str> = relevant.iter().filter_map(|sample| model_of(sample)).collect();
    if models.len() > 1 && !models.contains(model) {
        return None;
    }
    let ours = |sample: &&&&Sample<'_>| models.len() < 2 || model_of(sample).is_none_or(|other| other == model);
    let mut total: Option<f64> = None;
    for value in relevant.iter().filter(ours).map(|sample| sample.value) {
        if !value.is_finite() || value < 0.0 {
            return None;
        }
        total = Some(match (total, join) {
            (None, _) => value,
            (Some(sum), Join::Sum) => sum + value,
            (Some(most), Join::Largest) => most.max(value),
        });
    }
    total.filter(|total| total.is_finite())
}

/// One reading of a server's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What it told.
    pub snapshot: Snapshot,
    /// From the instant at which it was begun to the end of its answer.
    pub took: Nanos,
    /// The server's own time when it answered, in Unix seconds.
    pub at_unix_s: Option<f64>,
}

/// Reads the counters of a server at instants that the load generator knows.
pub trait Meter {
    /// Begins to read and returns at once: requests are in flight. Gives the reading's number.
    fn begin(&mut self) -> u64;

    /// The reading of this number; waits for it, for a bounded time. Readings are taken in the order in which they
    /// were begun: one taken makes those before it forgotten.
    ///
    /// # Errors
    /// Why there is none, in one line.
    fn reading(&mut self, number: u64) -> Result<Reading, String>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::recorded_tests::shared;
    use crate::wire::exposition::parse;

    /// Prompt and generated tokens, preemptions, cache queries and hits, running, waiting, use of the cache.
    fn told(page: &[u8], model: &str) -> [Option<f64>; 8] {
        use Quantity::{CacheHits, CacheQueries, GeneratedTokens, KvUse, Preemptions, PromptTokens, Running, Waiting};
        let snapshot = Snapshot::of(&parse(page), model);
        let all = [PromptTokens, GeneratedTokens, Preemptions, CacheQueries, CacheHits, Running, Waiting, KvUse];
        all.map(|quantity| snapshot.get(quantity))
    }

    #[test]
    fn engines_of_one_model_add_up_and_other_models_do_not_count() {
        let page = b"vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 10\n\
            vllm:generation_tokens_total{engine=\"1\",model_name=\"m\"} 32\n\
            vllm:generation_tokens_total{engine=\"0\",model_name=\"other\"} 500\n\
            vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.5\n\
            vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"m\"} 0.25\n\
            vllm:num_requests_running{engine=\"0\",model_name=\"other\"} 7\n\
            vllm:prefix_cache_queries_total{model_name=\"m\"} 5\n\
            vllm:gpu_prefix_cache_queries_total{model_name=\"m\"} 9\n";
        let found = told(page, "m");
        // A page of one model only knows it by another name than we do.
        assert_eq!(found, [None, Some(42.0), None, Some(5.0), None, Some(7.0), None, Some(0.5)]);
        assert_eq!(told(page, "third")[1], None, "several models, and none is ours");
    }

    #[test]
    fn a_number_that_cannot_be_is_unknown_and_so_is_half_a_sum() {
        for value in ["NaN", "-1", "+Inf", "1e999"] {
            let page = format!("sglang:num_queue_reqs 1\nsglang:num_queue_reqs{{tp_rank=\"1\"}} {value}\n");
            assert_eq!(told(page.as_bytes(), "m")[6], None, "{value}");
        }
        let old = told(b"llamacpp:prompt_tokens_total 7\nllamacpp:tokens_predicted_total 3\n", "m");
        assert_eq!(old[..5], [Some(7.0), Some(3.0), None, None, None], "without cached ones no look-ups");
        assert!(!Snapshot::of(&parse(b"process_start_time_seconds 5\nup 1\n"), "m").is_of_an_engine());
    }

    #[test]
    fn other_spellings_are_the_same_names() {
        let page = b"ray_vllm_generation_tokens_total 4\nsglang_num_running_reqs 3\n";
        let found = told(page, "m");
        assert_eq!((found[1], found[5]), (Some(4.0), Some(3.0)));
        let triton = b"nv_trt_llm_request_metrics{model=\"trt\",request_type=\"waiting\",version=\"1\"} 2\n\
            nv_trt_llm_request_metrics{model=\"trt\",request_type=\"scheduled\",version=\"1\"} 6\n\
            nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"trt\"} 0.4875\n\
            nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\",model=\"trt\"} 6239\n";
        assert_eq!(told(triton, "m"), [None, None, None, None, None, Some(6.0), Some(2.0), Some(0.4875)]);
        let tgi = b"tgi_request_generated_tokens_sum 50\ntgi_request_input_length_sum 9\ntgi_queue_size 3\n";
        assert_eq!(told(tgi, "m"), [Some(9.0), Some(50.0), None, None, None, None, Some(3.0), None]);
    }

    #[test]
    fn the_length_of_a_block_is_a_label_and_engines_that_differ_have_none() {
        let of = |page: &str| Snapshot::of(&parse(page.as_bytes()), "m").block_tokens();
        assert_eq!(of("vllm:cache_config_info{block_size=\"32\",engine=\"0\"} 1\n"), Some(32));
        assert_eq!(of("sglang:cache_config_info{num_pages=\"9\",page_size=\"1\"} 1\n"), Some(1));
        let two = |one: &str, other: &str| {
            of(&format!(
                "vllm:cache_config_info{{block_size=\"{one}\"}} 1\nvllm:cache_config_info{{block_size=\"{other}\"}} 1\n"
            ))
        };
        assert_eq!([two("16", "16"), two("16", "32"), two("16", "None"), two("0", "0")], [Some(16), None, None, None]);
        assert_eq!(of("up 1\n"), None);
    }

    #[test]
    fn the_engines_own_pages_are_understood() {
        let known: [(&str, &str, [Option<f64>; 8]); 6] = [
            ("vllm_real_0.32.0/metrics.txt", "tiny", [5_136.0, 1_284.0, 0.0, 5_136.0, 0.0, 0.0, 0.0, 0.0].map(Some)),
            (
                "vllm_v0/metrics.txt",
                "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8",
                [
                    Some(90.0),
                    Some(2_546.0),
                    Some(0.0),
                    None,
                    None,
                    Some(3.0),
                    Some(2.0),
                    Some(0.002_623_524_267_599_486_3),
                ],
            ),
            (
                "sglang/production_metrics_doc.txt",
                "any",
                [
                    Some(8_128_902.0),
                    Some(7_557_572.0),
                    None,
                    Some(8_128_902.0),
                    None,
                    Some(162.0),
                    Some(2_826.0),
                    Some(0.28),
                ],
            ),
            (
                "llamacpp_real_b11434/metrics.txt",
                "any",
                [Some(182.0), Some(73.0), None, Some(182.0), Some(119.0), Some(0.0), Some(0.0), None],
            ),
            (
                "triton_trtllm/trtllm_backend_readme.txt",
                "any",
                [None, None, None, None, None, Some(1.0), Some(1.0), Some(0.4875)],
            ),
            ("dcgm/fgo_fraction__metrics__1_workload.prom", "any", [None; 8]),
        ];
        for (path, model, expected) in known {
            let Some(bytes) = shared(&format!("data/metrics/{path}")) else { continue };
            assert_eq!(told(&bytes, model), expected, "{path}");
        }
    }
}
