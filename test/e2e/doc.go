// Package e2e holds the end-to-end tests that every change must pass: the main
// job by command line with a token in software and by terminal UI with a new
// card, and what people meet first when it goes another way. The programs, the
// tokens, pcscd, the control plane and kubectl are real; people sit at terminals.
// Package scenarios has the rest.
//
// All tests share one control plane, in namespaces of their own, where pcscd is.
package e2e
