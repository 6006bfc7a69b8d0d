package logs

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/cursor"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// line is a log line as it came.
type line struct {
	at              int64
	container, text string
}

// reader reads the lines of one query up to an instant.
type reader struct {
	c     *connector.ReadCall
	query string
	end   int64
}

// page returns the lines from an instant on, and where the next page starts. Of
// an answer that reached its limit, the lines of the last nanosecond are left
// for the next page: others may share it.
func (r reader) page(ctx context.Context, from int64, size int) ([]line, cursor.Position, error) {
	limit := size + 1
	lines, err := r.read(ctx, from, r.end, limit)
	switch {
	case err != nil:
		return nil, cursor.Position{}, err
	case len(lines) < limit:
		return lines, cursor.End(), nil
	}
	last := lines[len(lines)-1].at
	whole := slices.IndexFunc(lines, func(l line) bool { return l.at == last })
	if whole > 0 {
		return lines[:whole], at(last), nil
	}
	return r.instant(ctx, last)
}

// instant returns the lines of one nanosecond that are more than a page. If they
// are more than the server returns at once, there is no way to the rest.
func (r reader) instant(ctx context.Context, when int64) ([]line, cursor.Position, error) {
	lines, err := r.read(ctx, when, when+1, mostLines)
	switch {
	case err != nil:
		return nil, cursor.Position{}, err
	case len(lines) >= mostLines:
		return lines, cursor.Cut(), nil
	case when+1 >= r.end:
		return lines, cursor.End(), nil
	}
	return lines, at(when + 1), nil
}

func at(t int64) cursor.Position { return cursor.At(strconv.FormatInt(t, 10)) }

// read makes one request. Lines come by stream; they are put in order.
func (r reader) read(ctx context.Context, from, to int64, limit int) ([]line, error) {
	header := http.Header{}
	if org := r.c.Connection().Org; org != "" {
		header.Set("X-Scope-OrgID", org)
	}
	var body struct {
		Data struct {
			Result []struct {
				Stream map[string]string
				Values [][2]string // nanoseconds since 1970, text
			}
		}
	}
	_, err := r.c.Do(ctx, &connector.HTTPRequest{Route: "GET " + queryPath, Header: header, Out: &body, Params: connector.Params{
		"query": r.query, "direction": "forward", "limit": strconv.Itoa(limit),
		"start": strconv.FormatInt(from, 10), "end": strconv.FormatInt(to, 10)}})
	if err != nil {
		return nil, err
	}
	var lines []line
	for _, s := range body.Data.Result {
		for _, v := range s.Values {
			t, err := strconv.ParseInt(v[0], 10, 64)
			if err != nil || t < from || t >= to {
				return nil, toolresult.NewError(toolresult.ProviderError, "the log system gave a line that is not of the window")
			}
			lines = append(lines, line{t, s.Stream["container"], v[1]})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return lines, nil
}
