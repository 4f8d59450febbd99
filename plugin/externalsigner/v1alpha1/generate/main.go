// Command generate writes the Go code of externalsigner.proto, in the folder
// above. With -check it only tells whether the code is what it would write.
//
// The generators are the tools of this module, so that their versions are
// pinned; protoc's part is done by protocompile, which needs no C++ program.
// It is a module of its own: nothing of it belongs into the product's go.mod.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "externalsigner.proto"
	folder = ".." // from this module's
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if the code is not what would be written")
	flag.Parse()
	if err := run(context.Background(), *check); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool) error {
	// With source positions, as the comments become the code's.
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{folder}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, source)
	if err != nil {
		return err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{source},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return err
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(ctx, generator, request, check); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	return nil
}

// generate runs one of the module's tools (protoc's plugin protocol: a
// CodeGeneratorRequest in, a CodeGeneratorResponse out).
func generate(ctx context.Context, generator string, request []byte, check bool) error {
	cmd := exec.CommandContext(ctx, "go", "tool", generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		if err := write(filepath.Join(folder, f.GetName()), []byte(f.GetContent()), check); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, content []byte, check bool) error {
	if !check {
		return os.WriteFile(path, content, 0o644) //nolint:gosec // source code
	}
	there, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(there, content) {
		err = fmt.Errorf("%s is not what %s gives: run `make generate`", filepath.Base(path), source)
	}
	return err
}
