// One function, run in a world of its own beside the page's scripts, to its end
// without a pause: nothing of the page can come between a check and the click.
(want) => {
  // A page can name a field "elements" or "getAttribute", and the form then has
  // that field in place of its own member: members are taken from prototypes.
  const getter = (proto, k) => { const g = Object.getOwnPropertyDescriptor(proto, k).get; return (o) => g.call(o); };
  const attr = (e, k) => Element.prototype.getAttribute.call(e, k);
  const elementsOf = getter(HTMLFormElement.prototype, "elements"), baseOf = getter(Node.prototype, "baseURI");
  const nameOf = getter(Element.prototype, "localName"), textOf = getter(Node.prototype, "textContent");
  const parentOf = getter(Node.prototype, "parentElement");
  const all = (sel) => [...Document.prototype.querySelectorAll.call(document, sel)];
  const byId = (id) => Document.prototype.getElementById.call(document, id);
  const fail = (reason, what) => ({ ok: false, reason, what });
  if (location.origin !== want.origin || location.pathname !== want.path) return fail("elsewhere", location.origin + location.pathname);
  if (!globalThis.drawbridgeDocument) globalThis.drawbridgeDocument = crypto.randomUUID ? crypto.randomUUID() : String(performance.timeOrigin) + Math.random();
  if (want.document && globalThis.drawbridgeDocument !== want.document) return fail("another_document", "the page was loaded anew");

  const text = (s) => (s || "").replace(/\s+/g, " ").trim();
  const shown = (e) => {
    for (let n = e; n instanceof Element; n = parentOf(n)) {
      const s = getComputedStyle(n);
      if (s.display === "none" || s.visibility !== "visible" || Number(s.opacity) === 0 || attr(n, "hidden") !== null || attr(n, "aria-hidden") === "true" || attr(n, "inert") !== null) return false;
    }
    const r = Element.prototype.getBoundingClientRect.call(e);
    return r.width > 0 && r.height > 0;
  };
  const role = (e) => {
    const said = attr(e, "role");
    if (said) return said.trim().split(/\s+/)[0];
    const tag = nameOf(e), type = (attr(e, "type") || "").toLowerCase();
    if (tag === "button" || (tag === "input" && ["submit", "button", "reset", "image"].includes(type))) return "button";
    if (tag === "a" && attr(e, "href") !== null) return "link";
    if (tag === "textarea" || (tag === "input" && ["", "text", "email", "tel", "url"].includes(type))) return "textbox";
    if (tag === "input" && type === "search") return "searchbox";
    if (tag === "input" && type === "number") return "spinbutton";
    if (tag === "input" && (type === "checkbox" || type === "radio")) return type;
    if (tag === "select") return e.multiple || e.size > 1 ? "listbox" : "combobox";
    if (/^h[1-6]$/.test(tag)) return "heading";
    return "";
  };
  const name = (e) => {
    const by = e.getAttribute("aria-labelledby");
    if (by) return text(by.split(/\s+/).map((id) => { const n = byId(id); return n ? n.textContent : ""; }).join(" "));
    if (e.getAttribute("aria-label")) return text(e.getAttribute("aria-label"));
    if (e.labels && e.labels.length) return text([...e.labels].map((l) => l.textContent).join(" "));
    if (e.localName === "input" && ["submit", "button", "reset"].includes((e.type || "").toLowerCase())) return text(e.value);
    if (["button", "link", "heading"].includes(role(e))) return text(textOf(e));
    return text(e.getAttribute("title"));
  };
  const find = (l) => all("*").filter((e) => shown(e) && (l.id ? attr(e, "id") === l.id : role(e) === l.role && name(e) === l.name));
  const one = (l) => {
    const found = find(l);
    return found.length === 1 ? found[0] : null;
  };
  const called = (l) => (l.id ? "#" + l.id : l.role + " " + JSON.stringify(l.name));

  for (const c of want.checks || []) {
    const e = one(c.at);
    if (!e) return fail("check_missing", called(c.at) + ": " + find(c.at).length + " of them");
    const is = text("value" in e && e.localName !== "button" && e.localName !== "li" ? String(e.value) : textOf(e));
    if (is !== c.is) return fail("check_differs", called(c.at) + " is " + JSON.stringify(is.slice(0, 200)));
  }
  const fields = [];
  for (const f of want.fields || []) {
    const e = one(f.at);
    if (!e) return fail("field_missing", called(f.at) + ": " + find(f.at).length + " of them");
    if (e.disabled || e.readOnly) return fail("field_closed", called(f.at));
    if (e.type === "password" || e.type === "file" || e.type === "hidden") return fail("field_closed", called(f.at) + " takes " + e.type);
    fields.push([e, f]);
  }
  const button = one(want.submit);
  if (!button) return fail("submit_missing", called(want.submit) + ": " + find(want.submit).length + " of them");
  const form = button.form || button.closest("form");
  if (!form) return fail("form_changed", "the button belongs to no form");
  if (fields.some(([e]) => e.form !== form)) return fail("form_changed", "a field belongs to another form");
  const target = new URL((button.getAttribute("formaction") || attr(form, "action") || location.href), baseOf(document));
  if (target.origin !== want.origin || target.pathname !== want.action) return fail("form_changed", "it goes to " + target.origin + target.pathname);
  if ((button.getAttribute("formtarget") || attr(form, "target") || "_self") !== "_self") return fail("form_changed", "it opens another window");

  if (want.step === "fill") {
    for (const [e, f] of fields) {
      const proto = e.localName === "textarea" ? HTMLTextAreaElement.prototype : e.localName === "select" ? HTMLSelectElement.prototype : HTMLInputElement.prototype;
      e.focus();
      if (e.type === "checkbox" || e.type === "radio") { if (e.checked !== (f.value === "true")) e.click(); }
      else {
        Object.getOwnPropertyDescriptor(proto, "value").set.call(e, f.value);
        e.dispatchEvent(new Event("input", { bubbles: true }));
        e.dispatchEvent(new Event("change", { bubbles: true }));
      }
    }
    return { ok: true, document: globalThis.drawbridgeDocument };
  }

  // What would be sent: exactly the fields that were declared, with their values.
  // Others may be there only if they were named as the page's own.
  for (const [e, f] of fields) {
    const is = e.type === "checkbox" || e.type === "radio" ? String(e.checked) : e.value;
    if (is !== f.value) return fail("value_differs", called(f.at) + " holds " + JSON.stringify(is.slice(0, 200)));
  }
  const ours = new Set(fields.map(([e]) => e));
  for (const e of elementsOf(form)) {
    if (ours.has(e) || e.disabled || !e.name || ["submit", "button", "reset", "image", "fieldset", "output"].includes(e.type || e.localName)) continue;
    if ((e.type === "checkbox" || e.type === "radio") && !e.checked) continue;
    if (!(want.own || []).includes(e.name)) return fail("form_changed", "it also sends " + JSON.stringify(e.name.slice(0, 100)));
  }
  if (button.disabled || button.getAttribute("aria-disabled") === "true") return fail("submit_closed", called(want.submit));
  button.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  const r = button.getBoundingClientRect();
  const top = Document.prototype.elementFromPoint.call(document, r.left + r.width / 2, r.top + r.height / 2);
  if (!top || !(top === button || button.contains(top))) return fail("covered", top ? top.localName + (top.id ? "#" + top.id : "") : "nothing");
  if (want.step === "click") button.click();
  return { ok: true, document: globalThis.drawbridgeDocument };
}
