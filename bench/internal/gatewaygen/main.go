// Command gatewaygen generates the grpc-gateway code of the shop or the catalog,
// the reference that the bench measures against. It needs no protoc: the
// descriptors come from the generated Go code, and protoc-gen-grpc-gateway is a
// tool of this module, so that its version is pinned in go.mod. Its argument is
// shop or catalog; it writes into the current folder.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/rpcgate/rpcgate/bench/internal/catalogpb"
	"github.com/rpcgate/rpcgate/bench/internal/protoset"
	"github.com/rpcgate/rpcgate/examples/shop/shoppb"
)

// plugin generates a package of its own beside the messages'.
const (
	plugin     = "protoc-gen-grpc-gateway"
	parameters = "standalone=true,omit_package_doc=true"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatewaygen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	files := map[string]protoreflect.FileDescriptor{
		"shop": shoppb.File_shop_user_proto, "catalog": catalogpb.File_catalog_catalog_proto,
	}
	if len(args) != 1 || files[args[0]] == nil {
		return errors.New("want one argument: shop or catalog")
	}
	target := files[args[0]]
	in, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{target.Path()},
		Parameter:      proto.String(parameters),
		ProtoFile:      protoset.Files(target), // each after what it imports, as plugins want them
	})
	if err != nil {
		return fmt.Errorf("encoding the request for %s: %w", plugin, err)
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", plugin, err)
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(stdout.Bytes(), response); err != nil {
		return fmt.Errorf("decoding the answer of %s: %w", plugin, err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s: %s", plugin, response.GetError())
	}
	for _, f := range response.GetFile() {
		if err := os.WriteFile(path.Base(f.GetName()), []byte(f.GetContent()), 0o600); err != nil {
			return err
		}
	}
	return nil
}
