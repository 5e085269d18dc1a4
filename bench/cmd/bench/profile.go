package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rpcgate/rpcgate/bench/internal/load"
	"github.com/rpcgate/rpcgate/bench/internal/proc"
)

// profileTime is how long a profile is taken for.
const profileTime = 15 * time.Second

// profile runs one more round of every subject in every case, unmeasured
// because taking a profile costs time itself, and saves what it finds as
// <case>-<subject>.{cpu,allocs}.pprof.
func profile(ctx context.Context, cases []benchCase, o options, progress *log.Logger) error {
	if err := os.MkdirAll(o.profileDir, 0o750); err != nil {
		return err
	}
	for _, c := range cases {
		for _, s := range c.subjects {
			if s.profiles == "" {
				continue
			}
			r, err := profileOne(ctx, c, s, o)
			if err != nil {
				return fmt.Errorf("profile of %s, %s: %w", c.name, s.name, err)
			}
			progress.Printf("profile    %-9s  %-16s  %7.0f requests/s", c.name, s.name, r.Rate())
		}
	}
	return nil
}

func profileOne(ctx context.Context, c benchCase, s subject, o options) (load.Result, error) {
	kinds := map[string]string{"cpu": "profile", "allocs": "allocs"}
	fetched := make(chan error, len(kinds))
	started := false
	result, err := drive(ctx, c, s, load.Plan{
		Warmup:  o.warmup,
		Measure: profileTime + time.Second,
		Mark: func() error {
			if started {
				return nil
			}
			started = true
			for kind, page := range kinds {
				file := filepath.Join(o.profileDir, fmt.Sprintf("%s-%s.%s.pprof", c.name, strings.ReplaceAll(s.name, " ", "-"), kind))
				url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", s.profiles, page, int(profileTime.Seconds()))
				go func() { fetched <- save(ctx, url, file) }()
			}
			return nil
		},
	})
	if !started {
		return result, err
	}
	for range kinds {
		err = errors.Join(err, <-fetched)
	}
	return result, err
}

func save(ctx context.Context, url, file string) error {
	ctx, cancel := context.WithTimeout(ctx, profileTime+startTimeout)
	defer cancel()
	return proc.Get(ctx, url, func(response *http.Response) (err error) {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		_, err = io.Copy(f, response.Body)
		return err
	})
}
