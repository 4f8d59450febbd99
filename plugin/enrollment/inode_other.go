//go:build !unix

package enrollment

import "io/fs"

func inode(v []byte, _ fs.FileInfo) []byte { return v }
