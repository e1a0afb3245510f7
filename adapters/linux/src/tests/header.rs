//! `shim/shim.h` says what the Rust sources say: functions, their arguments, constants.

use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, iter};

use crate::abi;

const HEADER: &str = include_str!("../../shim/shim.h");
const ENTRIES: [&str; 5] = [
    include_str!("../entry/channel.rs"),
    include_str!("../entry/engine.rs"),
    include_str!("../entry/module.rs"),
    include_str!("../entry/transfer.rs"),
    include_str!("../shim.rs"),
];

/// The words of a text, where punctuation is a word of its own.
fn words(text: &str) -> Vec<String> {
    let spaced: String = text
        .chars()
        .flat_map(|c| {
            let own = "*(),;:{}=".contains(c);
            let pad = if own { " " } else { "" };
            pad.chars().chain(iter::once(c)).chain(pad.chars()).collect::<Vec<_>>()
        })
        .collect();
    spaced.split_whitespace().map(ToString::to_string).collect()
}

/// The name of a type that both languages have, without its language's style.
fn plain(name: &str) -> String {
    match name {
        "int" | "s32" | "i32" => "i32".into(),
        "size_t" | "usize" | "u64" => "u64".into(),
        "c_void" => "void".into(),
        "c_char" => "char".into(),
        other => other.replace("tombolo_", "").replace('_', "").to_lowercase(),
    }
}

/// A type of C, with the parameter's name behind it if there is one.
fn c_type(text: &[String], named: bool) -> String {
    let constant = text.iter().any(|w| w == "const");
    let pointer = text.iter().any(|w| w == "*");
    let mut kept: Vec<_> =
        text.iter().filter(|w| !["const", "*", "struct", "__noreturn"].contains(&w.as_str())).collect();
    if named {
        kept.pop();
    }
    let name = match kept.as_slice() {
        [a, b] if *a == "unsigned" && *b == "long" => "u64".into(),
        [name] => plain(name),
        other => panic!("{other:?} is no type"),
    };
    match (pointer, constant) {
        (true, true) => format!("*const {name}"),
        (true, false) => format!("*mut {name}"),
        _ => name,
    }
}

fn rust_type(text: &[String]) -> String {
    match text {
        [star, how, name] if star == "*" => {
            format!("*{how} {}", plain(name.rsplit("::").next().unwrap_or(name)))
        }
        [abi, a, b, name] if abi == "abi" && a == ":" && b == ":" => plain(name),
        [star, how, abi, a, b, name] if star == "*" && abi == "abi" && a == ":" && b == ":" => {
            format!("*{how} {}", plain(name))
        }
        [name] => plain(name),
        other => panic!("{other:?} is no type"),
    }
}

type Functions = BTreeMap<String, (Vec<String>, String)>;

fn c_functions() -> Functions {
    let mut code = String::new();
    let mut rest = HEADER;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    code.push_str(rest);
    let code: Vec<_> =
        code.lines().filter(|l| !l.starts_with('#') && !l.starts_with("static_assert")).collect();
    let mut found = Functions::new();
    for declaration in code.join(" ").split(';').map(words) {
        let Some(open) = declaration.iter().position(|w| w == "(") else { continue };
        // What comes before a function are the ends of structures.
        let start = declaration[..open].iter().rposition(|w| w == "}").map_or(0, |at| at + 1);
        let (result, name) = (&declaration[start..open - 1], &declaration[open - 1]);
        let arguments = &declaration[open + 1..declaration.len() - 1];
        let arguments = match arguments {
            [void] if void == "void" => Vec::new(),
            some => some.split(|w| w == ",").map(|a| c_type(a, true)).collect(),
        };
        found.insert(name.clone(), (arguments, c_type(result, false)));
    }
    found
}

fn rust_functions() -> Functions {
    let mut found = Functions::new();
    for source in ENTRIES {
        for line in source.split("fn ").skip(1).filter(|t| t.starts_with("tombolo_")) {
            let end = line.find(['{', ';']).expect("a function has a body or ends");
            let text = words(&line[..end]);
            let open = 1;
            let close = text.iter().position(|w| w == ")").expect("the arguments end");
            let arguments = text[open + 1..close]
                .split(|w| w == ",")
                .filter(|a| !a.is_empty())
                .map(|a| rust_type(&a[2..]))
                .collect();
            let result = match &text[close + 1..] {
                [] => "void".into(),
                [_arrow, never] if never == "!" => "void".into(),
                [_arrow, result @ ..] => rust_type(result),
            };
            found.insert(text[0].clone(), (arguments, result));
        }
    }
    found
}

#[test]
fn functions_are_declared_alike_in_both_languages() {
    let (c, rust) = (c_functions(), rust_functions());
    assert_eq!(c.keys().collect::<Vec<_>>(), rust.keys().collect::<Vec<_>>());
    for (name, declared) in &c {
        assert_eq!(Some(declared), rust.get(name), "{name}");
    }
    assert!(c.len() > 40, "{}", c.len());
}

#[test]
fn constants_have_the_same_values_in_both_languages() {
    let mut found = BTreeMap::new();
    for line in HEADER.lines() {
        let text: Vec<_> =
            line.trim_start_matches("#define").split_whitespace().filter(|w| *w != "=").collect();
        if let [name, value] = text[..]
            && let Ok(value) = value.trim_end_matches(',').parse::<u64>()
        {
            found.insert(name, value);
        }
    }
    let wanted = [
        ("TOMBOLO_ABI_VERSION", abi::VERSION.into()),
        ("TOMBOLO_MAX_VECTORS", abi::MAX_VECTORS as u64),
        ("TOMBOLO_BATCH", crate::channel::MAX_BATCH as u64),
        ("TOMBOLO_IRQ_POLLING", abi::IRQ_POLLING.into()),
        ("TOMBOLO_IRQ_MSI", abi::IRQ_MSI.into()),
        ("TOMBOLO_IRQ_MSIX", abi::IRQ_MSIX.into()),
        ("TOMBOLO_FINISHED", abi::KIND_FINISHED.into()),
        ("TOMBOLO_PERIOD", abi::KIND_PERIOD.into()),
        ("TOMBOLO_SLAVE_HAS_MODE", abi::SLAVE_HAS_MODE.into()),
        ("TOMBOLO_ENGINE_HAS_LISTS", abi::ENGINE_HAS_LISTS.into()),
        ("TOMBOLO_ENGINE_BASE_KNOWN", abi::ENGINE_BASE_KNOWN.into()),
    ];
    assert_eq!(found, BTreeMap::from(wanted));
}
