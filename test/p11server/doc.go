// Package p11server runs p11-kit's server for tests, and knows where p11-kit's client module is.
package p11server
