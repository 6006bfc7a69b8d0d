package ingest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// pages is a source whose listing has one page.
type pages []ingest.Item

func (p pages) Changes(context.Context, toolresult.Interval, string) (ingest.Page, error) {
	return ingest.Page{}, nil
}

func (p pages) All(context.Context, string) (ingest.Page, error) {
	return ingest.Page{Items: p}, nil
}

func ExampleSyncer() {
	var index ingest.Memory // a program has sqlstore's
	source := pages{{Object: authz.ResourceID{Type: "page", ID: "7"}, Version: 1, Title: "Plan", Text: "Move on Monday.", Access: &ingest.Access{Readers: []string{"staff"}}}}
	feed := ingest.Feed{Tenant: "acme", Connection: "c1", Name: "wiki"}
	s, err := ingest.New(&index, feed, source, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := s.Sync(ctx) // the first one walks through everything
	fmt.Println(p.Changed, p.Done, err)
	err = s.Event(ctx, ingest.Item{Object: source[0].Object, Version: 2, Deleted: true}) // a webhook says
	list, err2 := index.Find(ctx, &ingest.Query{Feed: feed, Readers: []string{"staff"}, Limit: 10})
	fmt.Println(len(list), err, err2)
	// Output:
	// 1 true <nil>
	// 0 <nil> <nil>
}
