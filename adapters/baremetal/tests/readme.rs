//! What the README shows is code that is compiled: the walk-through is that of the example, and the build script that of
//! this crate.

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn every_rust_block_of_the_readme_stands_in_the_example() {
    let readme = include_str!("../README.md");
    let example = squeezed(include_str!("../examples/bare-edu/driver.rs"));
    let blocks: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|block| block.split("```").next()).collect();
    assert_eq!(blocks.len(), 6);
    let (build, driver) = blocks.split_first().unwrap();
    for block in driver {
        assert!(example.contains(&squeezed(block)), "not in the example:\n{block}");
    }
    let own = squeezed(include_str!("../build.rs"));
    let arguments = build.lines().find(|line| line.trim_start().starts_with("for ")).unwrap();
    assert!(own.contains(&squeezed(arguments)), "not what this crate's build script says: {arguments}");
}

#[test]
fn the_walk_through_has_fewer_than_100_lines() {
    let readme = include_str!("../README.md");
    let walk = readme.split("## Bring your own device").nth(1).unwrap();
    assert!(walk.lines().count() < 100, "{} lines", walk.lines().count());
}
