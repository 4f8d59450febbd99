// Package card holds the end-to-end tests with a PIV card: the built program, a
// card of test/vcard behind a real pcscd, a real control plane and its
// unmodified kubectl, on terminals where a person would be. All of it runs in
// namespaces of the test's own.
package card
