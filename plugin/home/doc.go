// Package home knows where kubehsm keeps its things, guards those folders and
// files, and reads the user's own configuration.
//
// KUBEHSM_HOME, if set, holds everything: DIR/config.yaml, DIR/state, DIR/run.
// Else the XDG Base Directory Specification's folders are used.
package home
