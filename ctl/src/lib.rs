//! `shoalctl`: what can be typed, and what then happens.
//!
//! [`cli`] is the command line; [`commands`] has a file for each verb; [`client`] is the coordinator's HTTP interface as
//! functions; [`cluster`] starts and stops local daemons; [`export`] writes a state as files; [`demo`] is the main job, end to end; [`output`] has one form
//! for people and one for programs; [`failure`] ties all of it to exit codes.

pub mod cli;
pub mod client;
pub mod cluster;
pub mod commands;
pub mod demo;
pub mod export;
pub mod failure;
pub mod output;
