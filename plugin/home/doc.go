// Package home knows where kubehsm keeps its things, and guards those folders and
// files.
//
// KUBEHSM_HOME, if set, holds everything: DIR/config.yaml, DIR/state, DIR/run.
// Else the XDG Base Directory Specification's folders are used.
package home
