//! Tests of the decoder: by rule, by size, over the corpus, and against prost with a model of the
//! rules.
//!
//! `reference` is a second decoder (prost, and rules written for clarity), which the fuzz target of
//! packets uses too; `packets` builds test packets.

mod corpus;
mod differential;
mod packets;
mod rewriting;
mod rules;
mod sizes;

use super::reference::plain::{self, Plain};
use super::reference::{
    Decoders, Outcome, RECEIVED_SECS, compare, decode_with, decoder, hasher, naive,
};
use super::*;
use crate::input::record::{Repair, micros};
use crate::input::rewrite::{Chain, NameRules, RuleCounters, TagOf, TextField};

fn decode(datagram: &[u8]) -> Outcome {
    decode_with(&mut decoder(), datagram)
}

/// Decodes a packet that has one record; returns it with the counts.
fn decode_one(datagram: &[u8]) -> (Plain, DecodeCounts) {
    let outcome = decode(datagram);
    assert_eq!(outcome.result, Ok(1));
    let [request] = <[Plain; 1]>::try_from(outcome.requests).unwrap();
    (request, outcome.counts)
}

#[test]
fn every_reason_has_a_number_and_a_name_of_its_own() {
    for (number, reason) in RejectReason::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, number);
    }
    for (number, repair) in Repair::ALL.iter().enumerate() {
        assert_eq!(*repair as usize, number);
    }
    let names = RejectReason::ALL.iter().map(|reason| reason.name());
    assert_eq!(names.collect::<std::collections::HashSet<_>>().len(), RejectReason::COUNT);
    let names = Repair::ALL.iter().map(|repair| repair.name());
    assert_eq!(names.collect::<std::collections::HashSet<_>>().len(), Repair::COUNT);
}

/// The published wire contract matches the code: numbers, names, types and labels, in order.
#[test]
fn the_proto_file_describes_the_model() {
    let proto = include_str!("../../../../proto/pinba.proto");
    let body = proto.split_once("message Request {").unwrap().1;
    let fields: Vec<(String, String, String, u32)> = body
        .lines()
        .map(str::trim)
        .filter(|line| line.ends_with(';'))
        .map(|line| {
            let words: Vec<_> = line.trim_end_matches(';').split_whitespace().collect();
            let [label, kind, name, "=", number] = words[..] else { panic!("{line}") };
            (label.into(), kind.into(), name.into(), number.parse().unwrap())
        })
        .collect();

    let model = include_str!("../model.rs");
    let mut of_model = Vec::new();
    let mut lines = model.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(attribute) = line.strip_prefix("#[prost(") {
            let number = attribute.split("tag = \"").nth(1).unwrap().split('"').next().unwrap();
            let name = lines.next().unwrap().trim_start_matches("pub ").split(':').next().unwrap();
            let kind = attribute.split([',', ' ']).next().unwrap();
            let kind = if kind == "bytes" { "string" } else { kind };
            let kind = if kind == "message" { "Request" } else { kind };
            let number: u32 = number.parse().unwrap();
            let label = match (attribute.contains("repeated"), number) {
                (true, _) => "repeated",
                (false, 1..=9) => "required",
                (false, _) => "optional",
            };
            of_model.push((label.to_owned(), kind.to_owned(), name.to_owned(), number));
        }
    }
    of_model.sort_by_key(|field| field.3);
    // Field 18 occurs twice in the model: as requests, and as the bytes of deeper requests.
    of_model.retain(|field| !(field.3 == 18 && field.1 == "string"));
    assert_eq!(fields.len(), 23);
    assert_eq!(fields, of_model);
}
