// Package token holds the tokens of the agent: each in a worker, open while it is used,
// with one prompt at a time, and with those told who wait for somebody else's answer. It
// knows workers and what people are asked; it does not know enrollments, sessions and the
// bridge, nor when a token is to be locked.
package token
