package skills

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Extension is the name of the extension of MCP.
const Extension = "io.modelcontextprotocol/skills"

const (
	methodList      = "skills/list"
	methodGet       = "skills/get"
	methodDirectory = "resources/directory/read"

	entryName = "SKILL.md"
	dirType   = "inode/directory"

	// What SEP-2640 has hosts take.
	maxFiles = 512
	maxBytes = 16 << 20
)

// wireFile and wireEntry are what skills/list and skills/get hold.
type wireFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   *int64 `json:"size"`
}

type wireEntry struct {
	URI         string          `json:"uri"`
	FrontMatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
}

type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

type listResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string      `json:"resultType,omitempty"`
	Skills     []wireEntry `json:"skills"`
	NextCursor string      `json:"nextCursor,omitempty"`
}

type uriParams struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor,omitempty"`
}

type getResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string    `json:"resultType,omitempty"`
	Skill      wireEntry `json:"skill"`
}

type directoryResult struct {
	mcp.ResultBase
	mcp.Cacheable
	ResultType string          `json:"resultType,omitempty"`
	Resources  []*mcp.Resource `json:"resources"`
	NextCursor string          `json:"nextCursor,omitempty"`
}
