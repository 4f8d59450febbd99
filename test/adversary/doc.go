// Package adversary attacks kubehsm as a program of the same user does: one that
// knows the home folder, may start and end processes and talk to the agent and the
// bridge, but has neither the PIN nor a finger for the token.
//
// Each attack ([TestAttacks]) runs on the real program, with a real control plane
// and a token in SoftHSM or a virtual card whose key needs a touch for each use.
// What counts is what reached the API server, by that one's own audit log; and
// honest kubectl still has to work beside every attack.
//
// The folder defects has the mistakes that were made here, or that would be easy to
// make. Each puts one back; [TestDefects] builds the program with it and demands
// that the attacks it names catch it.
package adversary
