//! What the targets do, out of the tests of the product: they do the same with inputs of their own.

#[path = "../../it/fuzz/mod.rs"]
pub mod fuzz;
#[path = "../../it/tcp/value.rs"]
pub mod value;

/// The place of `value` in the tests.
pub mod tcp {
    pub use crate::value;
}
