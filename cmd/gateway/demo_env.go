package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// prepareEnvFile removes what an earlier demo left, so that whoever waits for
// the file does not read that, and makes sure that there is a folder for it.
// An empty name is no file.
func prepareEnvFile(name string) error {
	if name == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(name)); err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("env file: %w", err)
	}
	return nil
}

// writeEnvFile writes the file whole or not at all: it is there once it can be
// read. Only its owner can read it, for it holds the token.
func (d demoReady) writeEnvFile(name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("env file: %w", err)
	}
	_, err = fmt.Fprintf(f, "HTTP=%s\nGRPC=%s\nADMIN=%s\nREDIS=%s\nAPP=%s\nTOKEN=%s\n",
		d.HTTP, d.GRPC, d.Admin, d.Redis, d.App, d.Token)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("env file: %w", err)
	}
	return nil
}
