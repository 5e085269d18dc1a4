package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// Load reads a configuration file: it expands environment variables, decodes
// strictly over the defaults, reads the secrets that lie in files, and
// validates. The error is a [Faults] where the file could be read, with all
// that is wrong in it.
func Load(path string) (*Config, error) {
	c, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Inspect is [Load] for who wants to find more faults than config can: beside a
// [Faults] stands what could be read all the same, to be checked further, not
// to be served. It is nil where the file is no YAML.
func Inspect(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return parse(path, data, os.LookupEnv)
}

// Parse is [Load] for a file that was read already. Its name stands in the
// faults, and the files that it names are relative to its folder. Lookup gives
// environment variables; nil: none is set. The error is a [Faults], of which
// each has a line.
func Parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	c, err := parse(name, data, lookup)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	root, fault := parseDocument(data)
	if fault != nil {
		fault.File = name
		return nil, Faults{*fault}
	}
	c := Defaults()
	d := &decoder{source: source{file: name, marks: map[string]mark{}}, lookup: lookup, broken: map[string]bool{}}
	if root != nil {
		d.decode(reflect.ValueOf(c).Elem(), root, "")
	}
	c.source = &d.source
	folder := filepath.Dir(name)
	resolvePaths(reflect.ValueOf(c).Elem(), folder)
	for i := range c.Backends {
		if p := c.Backends[i].Proto; p != nil && len(p.ImportPaths) == 0 {
			p.ImportPaths = []string{folder}
		}
	}
	secrets := &validator{source: c.source, broken: d.broken}
	secrets.readSecrets(reflect.ValueOf(c).Elem(), "")
	faults := slices.Concat(d.faults, secrets.faults)
	for _, f := range secrets.faults {
		d.broken[f.Key] = true
	}
	if !d.stopped {
		v := &validator{source: c.source, broken: d.broken}
		v.config(c)
		faults = append(faults, v.faults...)
	}
	return c, faults.sorted().err()
}

// Validate finds all that is wrong with a configuration as far as it shows
// offline, and without changing anything. The files that it names are opened.
// The error is a [Faults]. It is for configurations built in code on
// [Defaults] and [DefaultBackend]; [Load] and [Parse] have done it already.
func (c *Config) Validate() error {
	v := &validator{source: c.source}
	v.config(c)
	return v.faults.sorted().err()
}

// resolvePaths makes the paths in a section that are relative ones start at the folder.
func resolvePaths(section reflect.Value, folder string) {
	walk(section, "", func(f field, v reflect.Value, _ string) {
		if f.Tag.Get("path") == "" || v.Kind() != reflect.String {
			return
		}
		if p := v.String(); p != "" && !filepath.IsAbs(p) {
			v.SetString(filepath.Join(folder, p))
		}
	})
}

// readSecrets fills each secret from the file that the key beside it, with
// _file at its end, names. Neither a secret nor a path is repeated in a fault:
// an environment variable may have brought one in place of the other.
func (v *validator) readSecrets(section reflect.Value, path string) {
	for _, f := range fieldsOf(section.Type()) {
		value, key := section.FieldByIndex(f.Index), keyPath(path, f.key)
		for value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct {
			v.readSecrets(value, key)
			continue
		}
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct {
			for i := range value.Len() {
				v.readSecrets(value.Index(i), indexPath(key, i))
			}
			continue
		}
		from := section.FieldByName(f.Name + "File")
		if f.Type != secretType || !from.IsValid() || from.String() == "" {
			continue
		}
		if value.String() != "" {
			v.fault(key+"_file", "both %s and %[1]s_file are set; keep one", f.key)
			continue
		}
		secret, err := readSecretFile(from.String())
		if err != nil {
			v.fault(key+"_file", "%s: %v", v.show(key+"_file", from.String()), err)
			continue
		}
		value.SetString(secret)
	}
}
