//! From a plan to the workers' assignments.
