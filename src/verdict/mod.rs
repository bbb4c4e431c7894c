//! Policy x comparison to verdicts: validity first, then margins with multiplicity, then the sentence
//! a reviewer needs.

pub mod judgement;
