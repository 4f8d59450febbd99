// Package quick gets a credential from an agent that has it at hand: one round
// trip, and none of the packages that a person, a token or a network would
// need, not even net. Whatever is in the way, the caller goes on with package
// agent's client, which starts agents, asks people and finds words for failures.
package quick
