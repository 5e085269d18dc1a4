package tenant

import (
	"context"
	"fmt"
)

// Export gives all apps and tokens to a function, each app before its tokens,
// until that returns an error. An app without a record is left out, its tokens
// are not. It holds one page at a time; what is there throughout comes exactly
// once, each record as it is at its turn. There are hashes in it, and no secrets.
// Errors: [ErrLayout], the function's.
func (s *Store) Export(ctx context.Context, to func(Record) error) error {
	if err := s.own(); err != nil {
		return fmt.Errorf("export: %w: its tokens are no records; import them into rpcgate's own", err)
	}
	for cursor := ""; ; {
		apps, next, err := s.pageOfApps(ctx, cursor, batch)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		for _, a := range apps {
			if a.known {
				if err := to(Record{App: &a.App}); err != nil {
					return err
				}
			}
			if err := s.exportTokens(ctx, a.ID, to); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func (s *Store) exportTokens(ctx context.Context, app string, to func(Record) error) error {
	for cursor := ""; ; {
		page, next, err := s.pageOfApp(ctx, app, cursor, maxPage)
		if err != nil {
			return fmt.Errorf("export the tokens of app %s: %w", app, err)
		}
		for i := range page {
			if err := to(Record{Token: &page[i]}); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
