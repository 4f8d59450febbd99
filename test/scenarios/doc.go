// Package scenarios holds the end-to-end tests beside those of package e2e: the
// built program, SoftHSM2 tokens, a real control plane and its unmodified kubectl,
// on terminals where a person would be. Package lab is where they work.
//
// The tests share one control plane, except those that stop parts of it. Each
// has a user of its own, and fails if a process of that user's agent is left.
package scenarios
