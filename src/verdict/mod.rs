//! Policy x comparison to verdicts: validity first, then margins with multiplicity, then the sentence
//! a reviewer needs.
//!
//! [`judge::judge`] is the entry; [`reach`] tells beforehand which checks can never pass. A precondition is one file and one line in `rules`; a kind of margin is one arm in
//! `trial`; what a verdict says to people is in `words`.

pub mod case;
pub mod counting;
pub mod judge;
pub mod judgement;
pub mod reach;
mod stopped;

mod decide;
mod failures;
mod family;
mod gaps;
mod notes;
mod plans;
mod rules;
mod sentence;
mod states;
mod subjects;
mod trial;
mod words;

#[cfg(test)]
mod advice_tests;
#[cfg(test)]
mod phases_tests;
#[cfg(test)]
mod rates_tests;
#[cfg(test)]
mod slices_tests;
#[cfg(test)]
mod tests;
