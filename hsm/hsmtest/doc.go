// Package hsmtest holds what tests of and above package hsm share: [Run], the
// contract suite that every driver passes; [Fake], an in-memory driver that
// passes it too, for unit tests of the layers above; [Script], a prompter that
// answers as written; and [StartSoftHSM], private software tokens for integration
// tests.
package hsmtest
