// An authorization server for tests: oidc-provider, with PKCE, refresh tokens
// that work once, resource indicators, introspection and revocation. Whoever
// comes is signed in and consents at once: login_hint says who.
//
// GET /__counters says what came to the token endpoint; POST /__fault?mode=drop
// makes it answer the next refresh by closing the connection, after it has acted.
import http from 'node:http';
import crypto from 'node:crypto';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const { Provider, errors } = await import(pathToFileURL(path.join(process.env.DRAWBRIDGE_NODE, 'node_modules/oidc-provider/lib/index.js')));

const life = Number(process.env.ACCESS_FOR);
const api = 'https://api.tickets.test';
const server = http.createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'host', client_secret: 'CANARY-secret:%+&=', redirect_uris: ['http://127.0.0.1:7777/callback'],
      grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'client_secret_basic',
    },
    {
      client_id: 'rs', client_secret: 'rs-secret', redirect_uris: [], grant_types: [], response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
  ttl: {
    AccessToken: life, AuthorizationCode: 60, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 300, IdToken: 300,
  },
  cookies: { keys: [crypto.randomBytes(16).toString('hex')] },
  jwks: {
    keys: [{ ...crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'ES256' }],
  },
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
  interactions: { url: (_ctx, i) => `/__auto/${i.uid}` },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true, allowedPolicy: (_ctx, client) => client.clientId === 'rs' },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => {
        if (resource !== api) throw new errors.InvalidTarget();
        return { scope: 'tickets.read tickets.write', audience: api, accessTokenFormat: 'opaque', accessTokenTTL: life };
      },
    },
  },
});

const counters = { authorization_code: 0, refresh_token: 0, refreshed: 0, revocation: 0, refused: 0 };
let fault = '';
const read = (req) => new Promise((done) => { let b = ''; req.on('data', (c) => { b += c; }); req.on('end', () => done(b)); });

provider.use(async (ctx, next) => {
  if (ctx.path === '/token/revocation') counters.revocation += 1;
  if (ctx.path !== '/token') return next();
  ctx.req.body = Object.fromEntries(new URLSearchParams(await read(ctx.req)));
  const grant = ctx.req.body.grant_type;
  counters[grant] = (counters[grant] ?? 0) + 1;
  await next();
  if (ctx.status !== 200) counters.refused += 1;
  if (grant === 'refresh_token' && ctx.status === 200) {
    counters.refreshed += 1;
    if (fault === 'drop') {
      fault = '';
      ctx.respond = false;
      ctx.req.socket.destroy();
    }
  }
  return undefined;
});

async function consent(req, res) {
  const d = await provider.interactionDetails(req, res);
  const { prompt: { name, details }, params } = d;
  const hint = params.login_hint ?? 'ann';
  if (hint.startsWith('deny:')) return provider.interactionFinished(req, res, { error: 'access_denied', error_description: 'no' });
  const who = hint.replace(/^partial:/, '');
  if (name === 'login') return provider.interactionFinished(req, res, { login: { accountId: who } });
  const grant = d.grantId ? await provider.Grant.find(d.grantId) : new provider.Grant({ accountId: d.session.accountId, clientId: params.client_id });
  const keep = (s) => !hint.startsWith('partial:') || s.endsWith('read');
  if (details.missingOIDCScope) grant.addOIDCScope(details.missingOIDCScope.join(' '));
  for (const [where, scopes] of Object.entries(details.missingResourceScopes ?? {})) {
    grant.addResourceScope(where, scopes.filter(keep).join(' '));
    const no = scopes.filter((s) => !keep(s));
    if (no.length) grant.rejectResourceScope(where, no.join(' '));
  }
  return provider.interactionFinished(req, res, { consent: { grantId: await grant.save() } }, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on('request', async (req, res) => {
  try {
    const url = new URL(req.url, issuer);
    if (url.pathname === '/__fault') { fault = url.searchParams.get('mode'); return res.end('ok'); }
    if (url.pathname === '/__counters') return res.end(JSON.stringify(counters));
    if (url.pathname.startsWith('/__auto/')) return await consent(req, res);
    return callback(req, res);
  } catch (e) {
    console.error(e);
    res.statusCode = 500;
    return res.end(String(e));
  }
});
console.log(issuer);
process.stdin.on('end', () => process.exit(0)).resume();
