// Package neighbours starts programs that share a terminal.
package neighbours
