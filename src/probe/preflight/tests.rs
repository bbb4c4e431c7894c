//! What the first request of a target says, right and wrong.

use super::*;
use crate::wire::decoded::Doubt;
use crate::wire::dialect;
use crate::wire::transport::Read;

/// Answers with one exchange after the other, and with the last one for ever.
struct Script(Vec<Exchange>);

impl Transport for Script {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
    fn submit(&mut self, request: Outbound) {
        assert_eq!(request.path, "/v1/completions");
        assert!(String::from_utf8_lossy(&request.body).contains("\"model\":\"m\""));
    }
    fn wait(&mut self, _until: Option<Nanos>) -> Wake {
        let exchange = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() };
        Wake::Ended(Box::new(exchange))
    }
    fn abandon(&mut self) {}
}

/// A response whose body came in pieces, one read each.
fn response(status: Option<u16>, pieces: &[&str], failure: Option<Failure>) -> Exchange {
    let mut exchange = Exchange {
        id: 0,
        due: Nanos::ZERO,
        sent: Nanos::ZERO,
        connect: None,
        tls: None,
        status,
        head: None,
        body: Vec::new(),
        reads: Vec::new(),
        end: Nanos::from_millis(100),
        failure,
        resent: false,
    };
    for (at, piece) in (1..).zip(pieces) {
        exchange.body.extend_from_slice(piece.as_bytes());
        exchange.reads.push(Read { at: Nanos::from_millis(at), end: exchange.body.len() });
    }
    exchange
}

fn look(offered: Option<&[String]>, exchange: Exchange) -> Result<Vec<Caution>, Refused> {
    look_at(offered, &mut Script(vec![exchange]))
}

fn look_at(offered: Option<&[String]>, script: &mut Script) -> Result<Vec<Caution>, Refused> {
    let dialect = dialect::of(Api::Completions);
    let template = Template::new(&dialect, "m", &serde_json::Map::new());
    let timeout = Nanos::from_secs(60);
    let (api, model) = (Api::Completions, "m");
    let trial = Trial { api, dialect: &dialect, template: &template, model, offered, timeout, tokenizer: None };
    preflight(trial, script, &mut |_| {})
}

const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":16}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn a_target_in_order_passes_and_oddities_are_named() {
    assert_eq!(look(None, response(Some(200), &[TOKEN, TOKEN, FINISH, USAGE, DONE], None)), Ok(vec![]));
    assert_eq!(
        look(None, response(Some(200), &[TOKEN, TOKEN, FINISH, DONE], None)),
        Ok(vec![Caution::NoUsage { tokenizer: false }])
    );
    let doubtful = Caution::Doubtful(Doubt::FewerThanChunks);
    let at_once = [&TOKEN.repeat(19), FINISH, USAGE, DONE].concat();
    assert_eq!(look(None, response(Some(200), &[&at_once], None)), Ok(vec![Caution::HeldBack, doubtful]));
}

#[test]
fn a_length_that_is_not_reached_says_how_to_force_it() {
    let three = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":3}}\n\n";
    let stop = FINISH.replace("length", "stop");
    let answer = || response(Some(200), &[TOKEN, TOKEN, &stop, three, DONE], None);
    assert_eq!(look(None, answer()), Ok(vec![Caution::EndsEarly { output: 3, api: Api::Completions }]));
    let dialect = dialect::of(Api::Completions);
    let extra = serde_json::Map::from_iter([("ignore_eos".to_owned(), true.into())]);
    let template = Template::new(&dialect, "m", &extra);
    let timeout = Nanos::from_secs(60);
    let api = Api::Llamacpp;
    let trial =
        Trial { api, dialect: &dialect, template: &template, model: "m", offered: None, timeout, tokenizer: None };
    let cautions = preflight(trial, &mut Script(vec![answer()]), &mut |_| {}).unwrap();
    let [ignored @ Caution::LengthIgnored { output: 3, .. }] = cautions.as_slice() else { panic!("{cautions:?}") };
    let said = ignored.to_string();
    assert!(said.contains("forces 16 output tokens, and the answer has 3") && said.contains("by itself"), "{said}");
}

#[test]
fn the_usual_mistakes_are_one_sentence_each() {
    let failed = |failure| look(None, response(None, &[], Some(failure))).unwrap_err();
    let cause = || "refused".to_owned();
    assert_eq!(failed(Failure::Connect(cause())), Refused::Unreachable { cause: cause() });
    assert_eq!(failed(Failure::Tls(cause())), Refused::Tls { cause: cause() });
    assert!(matches!(failed(Failure::Cut(cause())), Refused::Closed { .. }));
    assert!(matches!(failed(Failure::Client(cause())), Refused::OwnHost { cause } if cause.contains("ulimit -n")));
    let broken = |failure| look(None, response(Some(200), &[TOKEN, TOKEN], failure)).unwrap_err();
    assert!(matches!(broken(Some(Failure::Cut(cause()))), Refused::Cut { .. }), "there was an answer");
    assert!(matches!(broken(None), Refused::Cut { .. }));
    assert!(matches!(broken(Some(Failure::TooLarge)), Refused::Other { .. }));
    assert!(matches!(look(None, response(Some(200), &[FINISH, USAGE, DONE], None)), Err(Refused::Nothing { .. })));
    assert_eq!(failed(Failure::TimedOut), Refused::Silent { limit: Nanos::from_secs(60) });
}

#[test]
fn a_failure_that_may_pass_is_tried_three_times_and_a_clear_refusal_once() {
    let good = || response(Some(200), &[TOKEN, TOKEN, FINISH, USAGE, DONE], None);
    let cut = || response(Some(200), &[TOKEN], Some(Failure::Cut("reset".to_owned())));
    let reset = || response(None, &[], Some(Failure::Cut("reset".to_owned())));
    let status = |status| response(Some(status), &["{}"], None);
    let in_stream = || response(Some(200), &[TOKEN, "data: {\"error\":{\"message\":\"dead\"}}\n\n", DONE], None);
    for failed in [cut(), reset(), status(500), status(503), in_stream()] {
        let mut script = Script(vec![failed.clone(), failed.clone(), good()]);
        let cautions = look_at(None, &mut script).unwrap();
        assert!(matches!(cautions.as_slice(), [Caution::Retried { tries: 3, .. }]), "{failed:?}: {cautions:?}");
        let mut script = Script(vec![failed.clone(), failed.clone(), failed.clone(), good()]);
        look_at(None, &mut script).unwrap_err();
        assert_eq!(script.0.len(), 1, "three tries, and no fourth: {failed:?}");
    }
    let refused = |failure| response(None, &[], Some(failure));
    for clear in [
        status(401),
        status(404),
        status(422),
        response(Some(200), &["<html>"], None),
        refused(Failure::Connect("refused".to_owned())),
        refused(Failure::Tls("handshake".to_owned())),
        refused(Failure::TimedOut),
        refused(Failure::TooLarge),
    ] {
        let mut script = Script(vec![clear.clone(), good()]);
        look_at(None, &mut script).unwrap_err();
        assert_eq!(script.0.len(), 1, "one try: {clear:?}");
    }
}

#[test]
fn answers_that_are_no_streams_of_the_interface_say_what_to_check() {
    let answered = |status, body: &str| look(None, response(Some(status), &[body], None)).unwrap_err();
    assert_eq!(answered(401, "{}"), Refused::Unauthorized { status: 401 });
    let unknown = "{\"error\":{\"message\":\"The model `m` does not exist.\",\"code\":404}}";
    assert!(matches!(answered(404, unknown), Refused::NoSuchModel { .. }));
    let path = "/v1/completions".to_owned();
    assert_eq!(answered(404, "{\"detail\":\"Not Found\"}"), Refused::NoSuchPath { path, status: 404 });
    assert!(matches!(answered(500, "boom"), Refused::Failing { cause } if cause.contains("boom")));
    assert!(matches!(answered(418, "boom"), Refused::Other { cause } if cause.contains("boom")));
    assert!(matches!(answered(200, "{\"choices\":[{\"text\":\"whole\"}]}"), Refused::NotStreaming { .. }));
    assert!(matches!(answered(200, "<html>"), Refused::NotStreaming { .. }));
    assert!(matches!(answered(200, "data: 7\n\n"), Refused::WrongDialect { .. }));
    assert!(matches!(answered(200, ""), Refused::WrongDialect { .. }));
}

#[test]
fn refusals_for_load_and_trouble_of_the_server_say_what_to_do() {
    for (status, says) in [
        (429, "wait, keep other traffic away, or raise the limit"),
        (500, "look for this request in the deployment's log"),
        (501, "look for this request in the deployment's log"),
        (502, "whether a gateway in front of it reaches the engine"),
        (503, "wait until its model is loaded (`ready` of the target"),
        (504, "whether a gateway in front of it reaches the engine"),
        (101, "another protocol (101)"),
    ] {
        let said = look(None, response(Some(status), &["{\"error\":\"busy\"}"], None)).unwrap_err().to_string();
        assert!(said.contains(says) && !said.contains('\n'), "{status}: {said}");
        assert!(status == 101 || said.contains("busy"), "what the server says is kept: {said}");
    }
}

/// Nothing comes before the first instant that is waited for.
struct Slow {
    waits: Vec<Option<Nanos>>,
    then: Script,
}

impl Transport for Slow {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
    fn submit(&mut self, _request: Outbound) {}
    fn wait(&mut self, until: Option<Nanos>) -> Wake {
        self.waits.push(until);
        if until.is_some() { Wake::Reached } else { self.then.wait(until) }
    }
    fn abandon(&mut self) {}
}

#[test]
fn a_target_that_is_silent_for_long_is_told_with_the_limit_and_waited_for() {
    let good = response(Some(200), &[TOKEN, TOKEN, FINISH, USAGE, DONE], None);
    let mut slow = Slow { waits: vec![], then: Script(vec![good]) };
    let dialect = dialect::of(Api::Completions);
    let template = Template::new(&dialect, "m", &serde_json::Map::new());
    let (api, timeout) = (Api::Completions, Nanos::from_secs(60));
    let trial =
        Trial { api, dialect: &dialect, template: &template, model: "m", offered: None, timeout, tokenizer: None };
    let mut told = vec![];
    assert_eq!(preflight(trial, &mut slow, &mut |limit| told.push(limit)), Ok(vec![]));
    assert_eq!((told, slow.waits), (vec![timeout], vec![Some(Nanos::from_secs(5)), None]));
}

#[test]
fn an_unknown_model_names_what_is_served() {
    let offered = ["tiny", "large"].map(str::to_owned);
    let error = look(Some(&offered), response(Some(400), &["{}"], None)).unwrap_err().to_string();
    assert_eq!(error, "the target does not serve model `m`; it serves `tiny`, `large`");
    let served = ["m".to_owned()];
    let error = look(Some(&served), response(Some(400), &["{\"error\":\"bad\"}"], None)).unwrap_err();
    assert!(matches!(error, Refused::Other { .. }));
}
