// Package flow holds the use cases of kubehsm, which the command line and the
// terminal UI both run: list tokens, make a key, enrol it in a cluster, file
// and approve requests, write kubeconfig entries. It prints nothing and opens
// no terminal: progress leaves through callbacks, questions through a
// [hsm.Prompter].
package flow
