//go:build !unix

package enrollment

import "io/fs"

func inode(fs.FileInfo) string { return "" }
