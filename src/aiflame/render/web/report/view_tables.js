// The view tables.

export const view = {
  name: "tables",
  title: "Tables",
  key: "6",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
