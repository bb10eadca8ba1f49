// SPDX-License-Identifier: Apache-2.0
// Shows the OpenAPI documents that this service describes itself with. All text is set as text, never as HTML.
"use strict";

const at = (id) => document.getElementById(id);

function made(tag, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

async function read(address) {
  const path = new URL(address, location.href).pathname; // behind a proxy the service may know itself by another name
  const answer = await fetch(path, { credentials: "omit" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  for (const several of ["anyOf", "oneOf"]) if (schema[several]) return schema[several].map(typeOf).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items) || "anything"}`;
  return schema.format || schema.type || "anything";
}

function table(rows) {
  const element = made("table");
  for (const cells of rows) {
    const row = element.appendChild(made("tr"));
    for (const cell of cells) row.appendChild(made("td")).appendChild(made("code", cell));
  }
  return element;
}

function operation(path, method, said) {
  const element = made("details");
  const summary = element.appendChild(made("summary"));
  summary.appendChild(made("code", method.toUpperCase(), "method"));
  summary.appendChild(made("code", path));
  summary.appendChild(made("span", ` ${said.summary || ""}`, "says"));
  element.dataset.words = `${method} ${path} ${said.summary} ${(said.tags || []).join(" ")}`.toLowerCase();
  element.addEventListener("toggle", () => {
    if (element.childElementCount > 1) return;
    if (said["x-policy"]) element.appendChild(made("p", `Policy: ${said["x-policy"]}`));
    if (said.parameters.length) {
      element.appendChild(made("h4", "Parameters"));
      element.appendChild(table(said.parameters.map((one) => [one.name, one.in, typeOf(one.schema)])));
    }
    const sent = said.requestBody && said.requestBody.content["application/json"].schema;
    if (sent) {
      element.appendChild(made("h4", "Body"));
      element.appendChild(made("pre", JSON.stringify(sent, null, 2)));
    }
    element.appendChild(made("h4", "Answers"));
    for (const [status, answer] of Object.entries(said.responses)) {
      const schema = answer.content && answer.content["application/json"].schema;
      element.appendChild(made("p", `${status}: ${answer.description}`));
      if (schema) element.appendChild(made("pre", JSON.stringify(schema, null, 2)));
    }
  });
  return element;
}

function show(said) {
  const main = at("main");
  main.replaceChildren(made("h2", `${said.info.title} ${said.info.version}`), made("p", said.info.description));
  const tags = new Map();
  for (const [path, methods] of Object.entries(said.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      const tag = (one.tags || ["other"])[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push(operation(path, method, one));
    }
  }
  for (const [tag, operations] of [...tags].sort()) {
    const section = main.appendChild(made("section"));
    section.appendChild(made("h2", tag));
    section.append(...operations);
  }
  const section = main.appendChild(made("section"));
  section.appendChild(made("h2", "Schemas"));
  for (const [name, schema] of Object.entries(said.components.schemas)) {
    const element = section.appendChild(made("details"));
    element.dataset.words = name.toLowerCase();
    element.appendChild(made("summary")).appendChild(made("code", name));
    element.appendChild(made("pre", JSON.stringify(schema, null, 2)));
  }
  find();
}

function find() {
  const word = at("find").value.trim().toLowerCase();
  for (const one of document.querySelectorAll("details")) one.hidden = !one.dataset.words.includes(word);
}

async function open() {
  at("raw").href = new URL(at("version").value, location.href).pathname;
  try {
    show(await read(at("version").value));
  } catch (error) {
    at("main").replaceChildren(made("p", String(error)));
  }
}

async function start() {
  const index = await read("/abaca/v1/openapi");
  at("door").replaceChildren(...index.documents.map((one, place) => new Option(one.title, place)));
  const choose = () => {
    const documents = index.documents[at("door").value].documents;
    at("version").replaceChildren(...documents.map((one) => new Option(one.version, one.href)));
    return open();
  };
  at("door").addEventListener("change", choose);
  at("version").addEventListener("change", open);
  at("find").addEventListener("input", find);
  await choose();
}

start().catch((error) => at("main").replaceChildren(made("p", String(error))));
