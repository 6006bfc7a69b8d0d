package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/internal/scopeql"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
)

// Match finds the route of a request and what it touches. conn holds the
// connection's "account" and "org". Nothing in the answer is shared with the
// table but Route, which is not to be changed.
func (t *Table) Match(req *Request, conn map[string]string) (*Match, error) {
	var buf [12]string
	segs, err := split(req.Path, buf[:0])
	if err != nil {
		return nil, err
	}
	c := t.find(req.Method, segs, holds(req))
	if c == nil {
		return nil, ErrRoute
	}
	for name := range req.Header {
		if elsewhere(name) {
			return nil, ErrHeader
		}
	}
	r := reader{compiled: c, req: req, conn: conn, segs: segs}
	if err := r.parameters(); err != nil {
		return nil, err
	}
	return r.match()
}

// elsewhere reports whether a header names another method or path, in any
// spelling that a server may take for it.
func elsewhere(name string) bool {
	if len(name) < len("X-Http-Method") || name[0]|0x20 != 'x' {
		return false
	}
	for _, n := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url"} {
		if sameHeader(name, n) {
			return true
		}
	}
	return false
}

// sameHeader reports whether two names are one to some server: case never
// counts, and gateways make underscores of dashes and the other way round.
func sameHeader(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == '_' {
			x = '-'
		}
		if y == '_' {
			y = '-'
		}
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}

// Effect says what a request does by the route that it is of, without looking at
// what it touches. Undeclared: it is of none.
func (t *Table) Effect(req *Request) Effect {
	var buf [12]string
	segs, err := split(req.Path, buf[:0])
	if err != nil {
		return Undeclared
	}
	if c := t.find(req.Method, segs, holds(req)); c != nil {
		return c.Effect
	}
	return Undeclared
}

// find returns the most specific route of those whose conditions hold.
func (t *Table) find(method string, segs []string, holds func(*compiled) bool) (best *compiled) {
	for _, c := range t.routes {
		if c.method == method && len(c.segs) == len(segs) && c.matches(segs) && holds(c) && (best == nil || compare(c.segs, best.segs) == first) {
			best = c
		}
	}
	return best
}

func (c *compiled) matches(segs []string) bool {
	for i, s := range c.segs {
		if _, ok := s.match(segs[i]); !ok {
			return false
		}
	}
	return true
}

// reader reads one request as its route says.
type reader struct {
	*compiled
	req    *Request
	conn   map[string]string
	segs   []string
	params []param
	form   bool

	body    any
	bodyErr error
	decoded bool
}

type param struct{ name, value string }

func (r *reader) match() (*Match, error) {
	m := &Match{Route: r.Route}
	if r.nvars > 0 {
		m.Vars = make(map[string]string, r.nvars)
		for i, s := range r.compiled.segs {
			if s.name != "" {
				m.Vars[s.name], _ = s.match(r.segs[i])
			}
		}
	}
	proofs, lookback, err := r.prove()
	if err != nil {
		return nil, err
	}
	if len(r.touches) > 0 {
		m.Objects = make([]Object, 0, len(r.touches))
	}
	for i := range r.touches {
		if m.Objects, err = r.touch(&r.touches[i], proofs, m.Objects); err != nil {
			return nil, err
		}
	}
	if r.window != nil {
		if m.Window, err = r.span(lookback); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// prove answers the questions about queries. The rows of each are in the same
// order as the questions.
func (r *reader) prove() (rows [][][]string, lookback time.Duration, err error) {
	for i := range r.questions {
		q := &r.questions[i]
		texts, err := r.texts(q)
		if err != nil {
			return nil, 0, err
		}
		var found [][]string
		for _, text := range texts {
			p, err := scopeql.Prove(q.dialect, text, q.labels)
			if err != nil {
				return nil, 0, fmt.Errorf("%w: %s: %w", ErrQuery, q.text, err)
			}
			found, lookback = append(found, p.Selectors...), max(lookback, p.Lookback)
			if len(found) > MaxObjects {
				return nil, 0, fmt.Errorf("%w: %s: %w", ErrQuery, q.text, errMany)
			}
		}
		rows = append(rows, found)
	}
	return rows, lookback, nil
}

// texts returns the queries that a question is about: one, or all of a list.
func (r *reader) texts(q *question) ([]string, error) {
	if !q.list {
		text, err := r.value(q.place)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrQuery, q.text, err)
		}
		return []string{text}, nil
	}
	if err := r.once(q.text); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrQuery, q.text, err)
	}
	var texts []string
	for _, p := range r.params {
		if p.name == q.text {
			texts = append(texts, p.value)
		}
	}
	if texts == nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrQuery, q.text, errMissing)
	}
	return texts, nil
}

// touch appends the objects of one touch.
func (r *reader) touch(t *touch, proofs [][][]string, objects []Object) ([]Object, error) {
	rows := [][]string{nil}
	if t.question >= 0 {
		rows = proofs[t.question]
	}
	for _, row := range rows {
		id, err := r.id(t, row)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrObject, t.text, err)
		}
		if o := (Object{t.typ, id}); !slices.Contains(objects, o) {
			objects = append(objects, o)
		}
		if len(objects) > MaxObjects {
			return nil, fmt.Errorf("%w: %s: %w", ErrObject, t.text, errMany)
		}
	}
	return objects, nil
}

// MaxObjects is how many objects one request may touch, and how many selectors
// the queries of one parameter may have.
const MaxObjects = 1000

var (
	errMany      = errors.New("names more than 1000")
	errMissing   = errors.New("is not there, or not exactly once")
	errPlain     = errors.New("is empty, or holds control characters")
	errAmbiguous = errors.New("a value holds the text that stands between two values")
)

// id puts an id together.
func (r *reader) id(t *touch, row []string) (id string, err error) {
	var buf [4]string
	values := buf[:0]
	for _, p := range t.parts {
		v := p.text
		switch p.from {
		case literal:
		case inQuery:
			v = row[p.label]
		default:
			if v, err = r.value(p.place); err != nil {
				return "", err
			}
			if v == "" || !plain(v) {
				return "", errPlain
			}
		}
		if p.until != 0 && strings.IndexByte(v, p.until) >= 0 {
			return "", errAmbiguous
		}
		values = append(values, v)
	}
	return strings.Join(values, ""), nil
}

// value returns what is at a place.
func (r *reader) value(p place) (string, error) {
	switch p.from {
	case inPath:
		for i, s := range r.compiled.segs {
			if s.name == p.text {
				v, _ := s.match(r.segs[i])
				return v, nil
			}
		}
	case inParam:
		if err := r.once(p.text); err != nil {
			return "", err
		}
		for _, q := range r.params {
			if q.name == p.text {
				return q.value, nil
			}
		}
	case inHeader:
		if v, n := header(r.req.Header, p.text); n == 1 {
			return v, nil
		}
	case inConn:
		if v := r.conn[p.text]; v != "" {
			return v, nil
		}
	case inBody:
		r.decode()
		if r.bodyErr != nil {
			return "", r.bodyErr
		}
		v, _ := strictjson.Lookup(r.body, p.text)
		switch v := v.(type) {
		case string:
			return v, nil
		case json.Number:
			if s := v.String(); !strings.ContainsAny(s, "eE-") && (r.window != nil && (p == r.window.start || p == r.window.end) || !strings.Contains(s, ".")) {
				return s, nil
			}
		}
	}
	return "", errMissing
}

// once checks that a body does not say a parameter again: servers merge query
// and body.
func (r *reader) once(name string) error {
	r.decode()
	if r.bodyErr != nil {
		return r.bodyErr
	}
	if top, _ := r.body.(map[string]any); top != nil {
		for k := range top {
			if strings.EqualFold(k, name) {
				return errMissing
			}
		}
	}
	return nil
}

// decode reads the body, the first time that it is needed.
func (r *reader) decode() {
	if r.decoded || r.form || len(r.req.Body) == 0 {
		return
	}
	r.decoded = true
	var err error
	if r.body, err = strictjson.Parse(r.req.Body); err != nil {
		r.bodyErr = ErrBody
		var e *strictjson.Error
		if errors.As(err, &e) { // its pointer holds names of the body
			r.bodyErr = fmt.Errorf("%w: %s", ErrBody, e.Text)
		}
	}
}

// header returns the value of a header, and how often it is there in any
// spelling.
func header(h http.Header, name string) (value string, n int) {
	for k, vs := range h {
		if sameHeader(k, name) && len(vs) > 0 {
			value, n = vs[0], n+len(vs)
		}
	}
	return value, n
}

const formType = "application/x-www-form-urlencoded"

// parameters reads those of the query and of a form. Each is declared, and
// occurs once unless it is a list.
func (r *reader) parameters() error {
	if err := r.contentType(); err != nil {
		return err
	}
	if err := r.parse(r.req.Query); err != nil || !r.form {
		return err
	}
	return r.parse(string(r.req.Body))
}

// contentType finds out whether the body is a form. A body that some servers
// take for one, although nobody says so, is refused: one without a type, and
// one of several parts, whose names are not looked at.
func (r *reader) contentType() error {
	kind, n := header(r.req.Header, "Content-Type")
	switch {
	case n > 1:
		return ErrHeader
	case len(r.req.Body) == 0 || kind == "application/json":
		return nil
	case n == 0:
		return fmt.Errorf("%w: it has no content type", ErrBody)
	}
	media, params, err := mime.ParseMediaType(kind)
	switch {
	case err != nil:
		return fmt.Errorf("%w: its content type cannot be read", ErrBody)
	case strings.HasPrefix(media, "multipart/"):
		return fmt.Errorf("%w: it has several parts", ErrBody)
	case params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8"):
		return fmt.Errorf("%w: it is not said to be UTF-8", ErrBody)
	}
	r.form = media == formType
	return nil
}

// parse reads name=value pairs with ampersands between them.
func (r *reader) parse(text string) error {
	if strings.IndexByte(text, ';') >= 0 { // some servers take it for an ampersand
		return ErrParams
	}
	for text != "" {
		var pair string
		pair, text, _ = strings.Cut(text, "&")
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(k)
		value, err2 := url.QueryUnescape(v)
		if err != nil || err2 != nil {
			return ErrParams
		}
		list, declared := r.compiled.params[name]
		if !declared {
			return ErrParam
		}
		if !list && slices.ContainsFunc(r.params, func(p param) bool { return p.name == name }) {
			return fmt.Errorf("%w: %s", ErrTwice, name)
		}
		r.params = append(r.params, param{name, value})
	}
	return nil
}
